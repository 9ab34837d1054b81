// SPDX-License-Identifier: BSD-3-Clause
#ifndef TESTS_PRELOAD_CHECK_CASES_H
#define TESTS_PRELOAD_CHECK_CASES_H

#include "check_ends.h"

// A request in parts with a completion: its begin, its memory and its end (ibv_wr_*).
struct ibv_qp_ex* start(struct end* end, uint64_t id);
void set_piece(struct ibv_qp_ex* qp, const struct buffer* buffer);
void complete(struct ibv_qp_ex* qp);

void shared(void);
void shared_region_ended(void);
void shared_ended_before_the_poll(void);
void one_buffer_in_turns(void);
void inline_changed(void);
void list_refused(void);
void list_filled_anew(void);
void list_posted_again(void);
void queue_full(void);
void ended_before_the_poll(void);
void ended_before_the_steps(void);
void failed_before_the_steps(void);
void region_moved(void);
void region_with_fewer_rights(void);
void read_into_what_is_sent(void);
void read_counted_into_what_is_sent(void);
void streamed_into_what_is_sent(void);
void messages_into_what_is_sent(void);
void messages_from_what_is_sent(void);
void random_into_what_is_sent(void);
void read_in_pieces_into_what_is_sent(void);
void written_from_what_is_sent(void);
void threads(void);
void threads_that_end_regions(void);
void idle_child(void);
void busy(void);
void busy_changed_in_a_loop(void);
void busy_changed_once(void);
void busy_failed(void);

void one_at_a_time(void);
void one_left(void);
void flags_in_turns(void);
void flags_too_late(void);
void given_up_and_begun(void);
void unseen_in_epoll(void);
void unseen_in_select(void);
void unseen_in_counted_poll(void);
void looked_at_by_another(void);
void unarmed_in_epoll(void);
void unarmed_beside_another(void);
void epoll_in_turns(void);
void cancelled_wait(void);
void left_by_a_reset_pair(void);
void left_by_a_destroyed_pair(void);

#endif
