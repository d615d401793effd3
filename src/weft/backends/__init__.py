"""What runs loop programs."""
