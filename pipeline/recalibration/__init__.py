"""Keeps champions up to date with what people say: new labels, drift, a challenger, a gate, a decision."""
