"""The Celery side: how work is published, claimed, run and settled through Celery's own hooks."""
