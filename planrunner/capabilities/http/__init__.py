"""HTTP: requests, downloads, polling and paging over connections that are checked where they are opened."""
