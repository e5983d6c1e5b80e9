"""What other rooms may listen to. Sent on commit with ids only: a listener reads the rows again."""

from django.dispatch import Signal

command_settled = Signal()  # command_id, topic: a terminal state, or unknown
subject_moved = Signal()  # subject_id, state
host_moved = Signal()  # host_id, reach ("" when its key or boot id changed)
stream_grew = Signal()  # stream_id
scrape_settled = Signal()  # scrape_id, is_ok, topic ("" unless there is news)
orphans_changed = Signal()  # host_id
batch_carried = Signal()  # a job of the hands is over: what was settled in it is settled
