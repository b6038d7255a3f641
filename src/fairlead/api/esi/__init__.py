"""ESI's doors: REST, push, debug verbs and health under the paths that its clients know."""
