"""Where expert bytes live: recipes, layout, budget, source."""
