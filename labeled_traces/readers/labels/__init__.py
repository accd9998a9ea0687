"""What people said of traces, joined with them: one module a source, and what the sources share."""
