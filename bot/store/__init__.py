"""All SQL of the project: one SQLite file, its migrations, and the unit-of-work verbs over it."""
