"""Model providers: whatever answers a turn. Nothing here stores, schedules or sends."""
