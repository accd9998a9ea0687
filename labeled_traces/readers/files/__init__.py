"""Files as records, one at a time: JSON, JSON Lines, tables; nothing here knows a format."""
