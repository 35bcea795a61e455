"""What the page shows, as HTML: pure functions from data to text, shared by the service, reports and archives."""
