"""What happens to the spans of any source: damage mended, answers taken out, what a judge looks for put in place."""
