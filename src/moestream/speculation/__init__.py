"""Who drafts tokens, and which of the drafts are confirmed."""
