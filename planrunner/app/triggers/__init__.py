"""What starts runs by itself: the clock, webhooks and changed files."""
