"""Files and folders below the working directory: read, found, written, edited, moved, removed, kept and put back."""
