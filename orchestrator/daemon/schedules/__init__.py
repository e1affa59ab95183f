"""Work that begins by the clock: schedules of recurring tasks, and the edges of run windows."""
