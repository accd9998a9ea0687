"""Improve a judge, prove it, ship it, keep it."""
