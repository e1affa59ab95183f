"""The files of a work, as people and agents write them: read with headings in three languages, written in one."""
