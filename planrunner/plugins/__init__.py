"""The plugin seam: what is installed, loaded only as far as it is used."""
