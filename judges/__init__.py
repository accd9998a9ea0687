"""A judge = program + trace + language model + strict reading of the reply."""
