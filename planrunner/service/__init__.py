"""The service: an HTTP API, and the page that people read and decide on."""
