"""What each system writes in a span, as a `Span`; one module a system or convention, none of them a reader."""
