"""Programs that run for as long as one lets them."""
