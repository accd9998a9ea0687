"""Ways to real models."""
