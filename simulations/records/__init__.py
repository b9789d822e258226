"""Records: what an experiment keeps of one draw, where measuring it takes more than a few lines."""
