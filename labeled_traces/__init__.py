"""What happened, and what people said about it. No language model here."""
