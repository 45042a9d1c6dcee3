"""The public names of `recordmill.transforms`, and the modules that define them."""

from recordmill.transforms.analyze import Analyze as Analyze
from recordmill.transforms.assign_splits import AssignSplits as AssignSplits
from recordmill.transforms.audio.audio_options import AudioOptions as AudioOptions
from recordmill.transforms.audio.audio_options import MelOptions as MelOptions
from recordmill.transforms.check import Check as Check
from recordmill.transforms.encode import EncodeExamples as EncodeExamples
from recordmill.transforms.encode import ParseExamples as ParseExamples
from recordmill.transforms.encode import SerializeExamples as SerializeExamples
from recordmill.transforms.encoders.array_options import ArrayOptions as ArrayOptions
from recordmill.transforms.encoders.arrays import ArrayEncoder as ArrayEncoder
from recordmill.transforms.encoders.audio import AudioFileEncoder as AudioFileEncoder
from recordmill.transforms.encoders.clips import ClipEncoder as ClipEncoder
from recordmill.transforms.encoders.image_headers import DepthAnalysis as DepthAnalysis
from recordmill.transforms.encoders.image_headers import HeaderCheck as HeaderCheck
from recordmill.transforms.encoders.images import ImageEncoder as ImageEncoder
from recordmill.transforms.encoders.table_learning import TableAnalysis as TableAnalysis
from recordmill.transforms.encoders.table_options import TableOptions as TableOptions
from recordmill.transforms.encoders.tables import TableCheck as TableCheck
from recordmill.transforms.encoders.tables import TableEncoder as TableEncoder
from recordmill.transforms.encoders.text.text import TextEncoder as TextEncoder
from recordmill.transforms.encoders.text.text_lengths import TextCheck as TextCheck
from recordmill.transforms.encoders.tokenization.text_options import TextOptions as TextOptions
from recordmill.transforms.encoders.tokenization.vocabulary import (
    VocabularyAnalysis as VocabularyAnalysis,
)
from recordmill.transforms.images import DecodeAndResizeImages as DecodeAndResizeImages
from recordmill.transforms.imaging.image_options import ImageOptions as ImageOptions
from recordmill.transforms.model.data_type import Context as Context
from recordmill.transforms.model.data_type import Encoded as Encoded
from recordmill.transforms.model.data_type import Encoder as Encoder
from recordmill.transforms.model.data_type import RowCheck as RowCheck
from recordmill.transforms.model.data_type import RowOutcome as RowOutcome
from recordmill.transforms.model.run_spec import RunSpec as RunSpec
from recordmill.transforms.model.source import ListingPart as ListingPart
from recordmill.transforms.model.source import Source as Source
from recordmill.transforms.publish import Publish as Publish
from recordmill.transforms.read import Read as Read
from recordmill.transforms.read import StageBatches as StageBatches
from recordmill.transforms.read_batches import ReadBatches as ReadBatches
from recordmill.transforms.read_files import ReadArrays as ReadArrays
from recordmill.transforms.read_files import ReadAudio as ReadAudio
from recordmill.transforms.read_files import ReadImages as ReadImages
from recordmill.transforms.read_files import ReadVideo as ReadVideo
from recordmill.transforms.read_rows import ReadSeries as ReadSeries
from recordmill.transforms.read_rows import ReadTable as ReadTable
from recordmill.transforms.read_rows import ReadText as ReadText
from recordmill.transforms.rebalance import Rebalance as Rebalance
from recordmill.transforms.reshuffle import Reshuffle as Reshuffle
from recordmill.transforms.sources.audio.audio_reading import AudioHeaderCheck as AudioHeaderCheck
from recordmill.transforms.sources.folders.folders import FileTree as FileTree
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat as RowFormat
from recordmill.transforms.sources.rows.references.file_list import FileList as FileList
from recordmill.transforms.staged.batch_records import BatchRecords as BatchRecords
from recordmill.transforms.staged.records import RecordValues as RecordValues
from recordmill.transforms.tokenize_text import TokenizeText as TokenizeText
from recordmill.transforms.write import WriteToTFRecord as WriteToTFRecord
