"""What people read: the plain table and the self-contained page."""
