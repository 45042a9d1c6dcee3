"""Limits of the units of work, in one place because together they limit memory and set the pace.

A listing consists of parts; a part is read in batches, which are staged. A task is what one encoder
process gets at a time. The limits of encoder tasks (TASK_*, MIN_TASKS, SAMPLE_TASK_BYTES) change
bytes: a member of a gzip shard holds one task, and estimates decide the number of shards.
"""

# Listing, reading and staging.
PART_BYTES = 8 << 20  # of the sections of files, or of the rows, in a part of a listing
PART_SECTIONS = 1024  # sections in such a part, at most
PART_ROWS = 1 << 16  # rows of a part of a listing or of a batch, at most
REFERENCE_ROWS = 1 << 14  # references to files in a part: they take more bytes than most rows
BATCH_BYTES = 8 << 20  # about the bytes of a batch that is read from a file of rows
VIDEO_PART_BYTES = 2 << 20  # of the videos in a part: decoding takes much longer than reading
VIDEO_PART_ROWS = 256
AUDIO_PART_BYTES = 8 << 20  # of the audio files in a part that are split into clips
AUDIO_PART_ROWS = 256
STAGED_BYTES = 16 << 20  # bytes at which a staged file of frames, samples or files of rows is full
VALUE_ROWS = 4096  # records of a batch that is made of the elements of a custom pipeline
VALUE_STAGED_BYTES = 16 << 20  # of small batches of a custom pipeline in a staged file
PROBED_VIDEOS = 16  # videos whose headers one task reads
REQUESTS = 32  # concurrent requests to an object store

# Tasks of encoder processes.
CHECK_ROWS = 256  # rows that one task checks
TASK_BYTES = 8 << 20  # about the bytes that an encoder task reads and writes
TASK_ROWS = 1 << 14  # rows of such a task, at most; large tasks look up frequent values only once
MIN_TASKS = 16  # tasks of a split, at least, if it has more than 1024 rows per task
SAMPLE_TASK_BYTES = 4 * TASK_BYTES  # of a task of the sample, unless one record exceeds it
SAMPLE_BYTES = 64 << 20  # of the frames of the sample that are kept for the shards
IMAGE_ROWS = 64  # images that one task of `DecodeAndResizeImages` decodes: a few MiB
WINDOW_BYTES = 4 << 20  # about the bytes of windows that are made at a time
TFT_ROWS = 1000  # rows that tensorflow-transform analyzes at a time

# Shuffles and aggregations.
PARTITIONS = 64  # of what is grouped by a hash
CONTENT_ROWS = 1 << 21  # records whose contents are compared at a time: 16 MiB of hashes
INDEX_ROWS = 1 << 20  # records whose indexes are in memory together: 24 MiB
LARGE_INDEX_ROWS = 1 << 14  # records of an index that takes longer to decode than to open
INLINE_BYTES = 1 << 20  # rows of up to this many bytes go through the shuffle itself, not files
PART_INLINE_BYTES = 1 << 16  # the same for the hashes of a part of the listing
CELL_ROWS = 1 << 16  # about the number of rows that are cut into windows together
SPILL_BYTES = 64 << 20  # the most that a worker collects before it writes a spill file
BUFFER_BYTES = 16 << 20  # the same, if blocks are few
REFERENCE_BUFFER_BYTES = 2 << 20  # the same for references, of which little else is in memory
PIECE_BYTES = 1 << 19  # per block in a spill file, or an eighth, if blocks are many
PROFILED_COLUMNS = 64  # whose statistics are summed together
COUNT_BYTES = 32 << 20  # of counts that a bundle collects before it emits them

# Writing.
LOOK_AHEAD_BYTES = 16 << 20  # of results per encoder process, over all writers of this process
SHARDS_AT_ONCE = 2  # shards, or segments, of a bundle that are written concurrently
SEGMENTS = 64  # about the number of segments of a small dataset; as many shards are not divided
SEGMENT_TASKS = 16  # encoder tasks of a segment, at most, unless its blocks are large
SEGMENT_BLOCKS = 4  # bytes that the tasks of a segment read and write, at least, in largest blocks
SEGMENT_WORKERS = 256  # slots that can encode segments concurrently, at most
BLOCK_BYTES = 4 << 20  # about the bytes of the rows of a block of a shard, at most
BLOCK_TASKS = 16  # encoder tasks of a block, if their rows are much smaller than what they refer to
LEAST_BLOCK_BYTES = 1 << 18  # of such a block
MAX_BLOCKS = 256  # of all shards, unless there are more shards: pieces must not be too small
ROW_BYTES = 8 << 20  # of the blocks that are sorted at a time; a single block may exceed it
INDEX_GROUP_ROWS = 1 << 15  # about the rows of a row group of an index
REFERENCE_INDEX_GROUP_ROWS = 1 << 13  # the same for references, of which little else is in memory
LARGE_ROW = 4 << 10  # bytes; larger rows are mostly of thousands of columns
_MOST_OF_LARGE_ROWS = 4  # by what factor large rows raise a limit, at most


def for_rows(limit: int, row_bytes: float) -> int:
    """Return a limit of bytes for rows of this size.

    It is up to four times as high for large rows, because work on each of their columns would take
    more time than the rows do.
    """
    return round(limit * min(max(row_bytes / LARGE_ROW, 1), _MOST_OF_LARGE_ROWS))
