"""Traces to the people who label them, and their labels back: by MLflow's review pages, or by a table."""
