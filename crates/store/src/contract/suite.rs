//! The list of all behaviours, by module, and the macro that makes tests of them.

/// Makes a test of every behaviour. The expression makes a new [`Engine`] on an empty database each time. It needs full
/// paths, because every part of the suite becomes a module.
#[macro_export]
macro_rules! contract_suite {
    ($engine:expr) => {
        $crate::contract_suite! { @ $engine;
            creating {
                the_first_use_of_a_name_makes_a_conversation_with_that_session_id
                every_id_of_a_conversation_leads_to_it
                simultaneous_first_uses_of_a_name_make_one_conversation
                a_turn_without_a_name_makes_a_conversation_of_its_own
                an_unknown_name_that_must_exist_is_not_found_and_leaves_nothing
                a_name_of_our_own_form_is_never_created
                chat_ids_are_names_of_their_own
            }
            histories {
                a_history_leads_to_the_turn_with_which_it_ends
                of_conversations_with_one_history_the_one_that_ends_there_counts
                an_admission_checks_what_its_caller_expects_a_search_to_find
                histories_of_other_tenants_keys_and_kinds_are_not_found
                of_many_equal_histories_the_one_that_ends_there_is_found
                a_key_that_comes_later_hides_a_history_from_others
                a_key_that_is_taken_back_hides_nothing
                a_chat_limits_the_search
                a_chat_has_one_first_conversation_and_any_number_of_branches
                a_chat_under_another_session_key_is_another_chat
                added_messages_wait_for_their_answer
                conversations_that_share_an_answer_are_found
                a_deleted_conversation_is_not_found_by_its_history
                a_rewound_history_is_still_found_and_the_end_is_unknown
            }
            memories {
                facts_are_listed_newest_first
                a_fact_that_is_known_is_not_added_again
                a_fact_is_changed_and_forgotten
                a_fact_does_not_exist_for_those_who_may_not_see_it
                a_fact_goes_with_the_conversation_it_comes_from
                what_was_said_is_remembered_under_its_key_alone
                a_conversation_does_not_remember_what_it_shows
                a_key_that_comes_later_brings_what_was_said_before
                what_is_deleted_is_not_remembered
                facts_that_match_come_first_and_then_the_newest
                what_was_recalled_is_stored_with_its_turn
                a_block_goes_with_what_it_quotes
                what_is_not_recorded_is_not_remembered
                what_is_known_of_an_earlier_version_is_not_taken
                what_is_said_after_a_recall_is_remembered_by_every_process
                a_restored_turn_is_remembered_only_if_it_was_recorded
                what_is_said_in_a_running_turn_is_not_remembered
                a_helpers_turn_that_was_indexed_while_it_ran_is_remembered_if_it_is_recorded
                what_a_compacted_conversation_still_shows_does_not_hide_other_conversations
            }
            quoting {
                a_block_is_not_stored_if_what_it_quotes_went_while_its_turn_ran
                a_step_stores_no_block_that_quotes_what_is_gone
                a_block_may_be_shown_again_while_what_it_quotes_is_there
                a_block_that_quotes_a_message_goes_when_the_message_is_rewritten
                a_compaction_of_turns_that_are_not_recorded_adds_no_facts
            }
            readings {
                a_conversation_is_read_once_when_it_was_quiet
                a_conversation_that_was_ended_is_read_at_once
                turns_that_are_not_recorded_are_not_read
                a_reading_that_was_not_ended_is_made_by_another_process
                a_failed_reading_is_made_later
                a_long_conversation_is_read_in_parts
                a_deleted_conversation_is_not_read
            }
            erasing {
                a_receipt_counts_what_was_erased_and_what_is_left
                facts_go_with_their_conversation_unless_they_are_kept
                what_branches_inherit_is_kept_and_counted
                a_session_key_is_erased_with_its_memory_and_nothing_else_is
                a_tenant_is_erased_and_others_stay
                what_a_turn_runs_in_is_not_erased
            }
            outbox {
                a_completed_turn_is_handed_over_with_its_commit
                what_waits_for_a_key_goes_in_order_and_by_one_process
                a_delivery_that_failed_is_repeated_after_its_pause
                a_lease_that_was_lost_settles_nothing
                a_turn_that_is_refused_is_given_up_and_an_erasure_is_not
                what_is_erased_is_not_delivered_and_its_erasure_is
                an_erasure_comes_after_what_is_on_its_way
                the_erasure_of_a_key_also_ends_what_was_held
                the_erasure_of_a_tenant_spares_what_is_said_after_it
                a_store_keeps_its_name
            }
            queueing {
                a_second_turn_waits_while_one_runs
                waiting_turns_go_in_order_of_arrival_across_instances
                no_turn_overtakes_waiting_turns
                a_turn_that_will_not_wait_is_refused_and_leaves_nothing
                a_full_queue_refuses_says_its_limit_and_leaves_nothing
                a_withdrawn_turn_leaves_its_place_to_the_next
                withdrawing_a_turn_that_does_not_wait_changes_nothing
            }
            visible_turns {
                a_visible_turn_that_gives_up_its_place_ends
                a_visible_turn_whose_process_is_gone_ends_where_it_waited
                a_visible_turn_keeps_a_conversation_that_no_other_turn_uses
                a_turn_that_waited_is_as_old_as_its_request
                streamed_output_is_read_while_it_streams_and_afterwards
                streamed_output_of_a_turn_that_was_cut_off_is_read_as_far_as_it_was_written
                a_turn_remembers_where_it_began
            }
            visible_turns_again {
                a_visible_turn_that_failed_waits_again_under_its_id
                a_turn_that_waits_again_goes_on_in_place_if_nothing_came_after_it
                a_turn_that_waits_again_and_gives_up_has_failed_as_before
                a_turn_that_waits_again_in_a_process_that_is_gone_has_failed_as_before
                a_turn_that_waits_again_is_cancelled_by_its_id
                only_a_visible_turn_waits_again_under_its_id
                a_visible_turn_that_never_began_waits_and_runs_under_its_id
                a_visible_turn_whose_process_died_before_it_began_is_taken_over
                a_visible_turn_that_was_cancelled_before_it_began_is_not_taken_over
                a_refused_request_leaves_a_turn_that_never_began_as_it_was
            }
            stopping {
                a_running_turn_that_is_cancelled_learns_of_it_and_cannot_complete
                a_turn_that_does_not_end_is_ended
                a_waiting_turn_that_is_cancelled_ends_at_once
                a_turn_that_has_ended_stays_as_it_is
                no_caller_cancels_a_turn_that_it_cannot_see
            }
            interrupting {
                an_interrupted_turn_learns_of_it_and_cannot_complete
                an_interrupting_turn_goes_before_waiting_turns
                an_interrupting_turn_goes_at_once_when_no_turn_runs
                an_interrupting_turn_behind_another_names_no_running_turn
                a_turn_that_does_not_yield_is_cut_off_and_commits_nothing
                a_refused_interrupt_asks_no_turn_to_stop
            }
            appending {
                what_a_turn_appends_is_part_of_its_answer
                compactions_and_messages_of_a_turn_keep_their_order
                a_turn_whose_process_dies_keeps_what_it_appended
                a_further_attempt_goes_on_after_what_was_appended
                streamed_output_of_an_attempt_is_not_part_of_the_next
                what_a_refused_turn_appended_is_taken_back
                a_turn_without_its_lease_or_asked_to_stop_appends_nothing
            }
            parking {
                a_parked_turn_goes_on_in_another_process
                a_parked_turn_outlives_its_process
                nothing_is_written_under_the_lease_of_a_parked_turn
                one_of_many_callers_resumes_a_turn
                other_turns_wait_for_a_parked_turn_or_are_refused
                a_parked_turn_is_interrupted_at_once
                a_parked_turn_is_cancelled_at_once
                a_turn_that_was_asked_to_stop_is_not_parked
                a_conversation_with_a_parked_turn_is_busy
                a_parked_turn_is_deleted_with_its_conversation
                a_retry_joins_a_parked_turn
                a_parked_turn_is_copied_as_one_that_was_cut_off
                a_resumed_turn_can_be_taken_back
                a_resumed_turn_can_be_parked_again
            }
            approving {
                questions_are_answered_one_by_one_by_name_or_all_at_once
                the_last_answer_completes_a_turn_whichever_it_is
                no_caller_answers_a_turn_that_it_cannot_see
                questions_that_nobody_answers_are_denied
                answers_are_steps_before_the_results_of_their_message
                the_answers_of_a_resumed_turn_outlive_its_process
                calls_that_were_asked_about_when_their_turn_was_stopped_were_not_made
                a_call_that_was_decided_about_has_a_result_when_its_turn_is_cut_off
                a_grant_for_the_session_is_for_its_conversation
                a_grant_for_ever_is_for_its_tenant_until_it_is_revoked
                once_and_deny_grant_nothing
                each_change_of_a_parked_turn_gives_a_notice
            }
            committing {
                a_turn_is_read_back_as_it_was_said
                the_newest_system_messages_hold
                a_commit_frees_the_lease_before_it_is_on_disk
                an_answer_of_several_messages_is_read_back_whole
                history_that_has_changed_is_stale
                a_commit_under_an_old_fence_changes_nothing
                an_unanswered_turn_keeps_its_partial_answer
            }
            retrying {
                a_further_attempt_is_the_same_turn
                a_turn_that_is_not_the_last_is_not_tried_again
                the_last_turn_is_the_one_that_went_last
                a_further_attempt_may_have_waited
            }
            beginning_anew {
                a_turn_that_failed_before_others_begins_anew_at_the_end
                a_turn_may_begin_anew_more_than_once
                an_attempt_that_begins_anew_may_have_waited
                an_attempt_that_is_taken_back_leaves_the_turn_where_it_failed
                only_an_unanswered_turn_of_the_conversation_begins_anew
                a_branch_between_the_two_places_has_the_turn_where_it_failed
                what_a_compaction_summarised_stays_left_behind
                a_key_leads_to_the_turn_that_began_anew
                a_copy_has_both_places
                what_is_deleted_at_one_place_stays_at_the_other
                a_compaction_of_the_first_place_stays_the_turns_when_that_place_is_emptied
            }
            idempotency {
                the_same_body_joins_a_running_turn
                the_same_body_joins_an_answered_turn
                the_same_body_joins_a_waiting_turn
                another_body_is_a_mismatch_and_leaves_nothing
                an_unanswered_turn_is_tried_again_where_it_was
                a_key_is_another_tenants_own
                a_retracted_turn_frees_its_key
            }
            sdk_retries {
                a_retry_behind_waiting_turns_is_an_attempt_of_the_turn_whose_owner_is_gone
                a_request_with_its_own_history_alone_does_not_begin_anew_behind_others
                a_retry_joins_a_running_turn
                a_retry_joins_an_answer_that_was_not_delivered
                every_attempt_number_joins_once
                a_delivered_turn_is_not_joined_by_a_retry_that_shows_nothing
                a_run_whose_id_was_delivered_is_joined_while_it_runs
                a_delivered_turn_is_joined_once_by_a_retry_that_has_not_seen_the_answer
                nothing_is_joined_after_the_window
                a_delivered_turn_is_not_joined_after_the_window
                another_request_joins_nothing
                another_tenants_turn_is_never_joined
                an_unanswered_turn_of_no_name_is_tried_again_where_it_was
            }
            overtaking {
                a_request_whose_client_is_gone_joins_the_retry_that_overtook_it
                a_request_that_a_failed_retry_overtook_is_another_attempt_of_it
                a_request_whose_client_still_waits_joins_nothing
                a_request_that_was_not_overtaken_joins_nothing
                another_request_whose_client_is_gone_joins_nothing
                a_retry_is_remembered_for_a_while
            }
            openings {
                a_first_turn_that_failed_is_tried_again_by_a_request_without_a_name
                what_repeats_no_failed_opening_is_a_conversation_of_its_own
                an_opening_that_failed_long_ago_stays_as_it_is
            }
            retracting {
                a_retracted_first_turn_leaves_nothing
                a_retracted_later_turn_leaves_the_conversation_as_it_was
                a_retracted_turn_takes_its_session_key_along
                a_retracted_attempt_is_the_unanswered_turn_again
                a_conversation_goes_with_the_last_turn_that_wanted_it
                turns_that_waited_for_a_retracted_turn_go_on
                a_retraction_under_an_old_fence_changes_nothing
            }
            owners {
                journal_text_is_what_is_left_of_a_turn_whose_owner_is_gone
                a_turn_whose_owner_is_gone_is_recorded_by_the_next_admission
                an_instance_that_is_gone_changes_no_turn_of_another
                waiting_turns_of_a_gone_process_block_no_turn
                waiting_turns_of_a_gone_process_do_not_fill_the_queue
                a_retry_of_a_turn_whose_owner_is_gone_is_tried_again
                a_closed_store_says_so
                a_step_of_the_wall_clock_ends_no_turn
                a_lease_is_confirmed_until_it_is_lost
            }
            notices {
                a_free_conversation_gives_a_notice_to_the_instance_of_its_first_waiter
                a_conversation_that_is_busy_again_gives_no_notice
                a_conversation_freed_by_the_death_of_an_instance_gives_a_notice
                a_waiter_that_gives_up_causes_a_notice_to_the_next_one
                a_change_before_the_first_look_is_not_lost
                a_waiting_turn_that_is_cancelled_elsewhere_gets_a_notice
                a_request_to_stop_gives_a_notice_and_other_changes_do_not
                a_turn_that_another_instance_has_ended_gets_a_notice
                a_running_turn_gives_a_notice_whenever_it_streams_more_and_when_it_ends
                streamed_output_is_read_part_by_part
                streamed_output_is_hidden_from_other_tenants
                a_closed_store_ends_its_subscriptions
            }
            current {
                the_first_conversation_of_a_key_has_no_name_that_a_client_can_take
                simultaneous_first_uses_of_a_key_make_one_conversation
                the_current_conversation_is_the_one_that_was_used_last
                an_answer_does_not_make_its_conversation_the_current_one_again
                an_ended_conversation_is_not_the_current_one
                what_no_person_uses_is_not_current
                a_key_that_may_not_be_used_has_no_current_conversation
            }
            session_keys {
                a_session_key_is_kept_from_its_first_use
                another_session_key_is_a_conflict_and_leaves_nothing
                a_conversation_whose_key_may_not_be_used_does_not_exist
                a_list_has_only_what_the_keys_allow
            }
            isolation {
                the_same_name_is_another_conversation_for_another_tenant
                nothing_is_read_across_tenants
                nothing_is_written_across_tenants
            }
            listing {
                conversations_are_listed_most_recently_changed_first
                pages_neither_skip_nor_repeat_while_rows_are_added
                a_filter_leaves_out_what_it_says
                a_conversation_is_found_by_a_part_of_any_of_its_ids
                messages_are_read_a_page_at_a_time
                messages_are_read_from_the_end_back
            }
            compacting {
                a_split_ends_the_session_and_starts_its_continuation
                every_older_id_leads_to_the_head
                a_hundred_splits_later_every_id_still_leads_to_the_head
                in_place_keeps_the_head
                no_message_is_copied_or_moved
                the_model_is_shown_the_summary_what_is_carried_and_the_rest
                the_full_view_has_everything_once_with_its_boundaries
                an_earlier_session_is_read_as_it_ended
                a_plan_on_another_base_is_stale
                a_plan_that_covers_what_was_taken_back_is_stale
                of_two_compactions_at_once_one_happens
                a_busy_conversation_is_not_compacted
                a_turn_of_a_gone_owner_blocks_no_compaction
                waiting_turns_start_in_the_new_head
                unanswered_turns_are_known_in_whatever_order_they_went
                a_missing_conversation_is_not_compacted
            }
            leased {
                the_turn_that_compacted_goes_on_in_the_new_head
                a_turn_may_compact_more_than_once
                a_lost_lease_compacts_nothing
                a_turn_that_failed_after_a_split_is_tried_again
                a_turn_retracted_after_a_compaction_leaves_only_that
                an_attempt_retracted_after_a_split_is_the_unanswered_turn_again
                a_retracted_first_turn_takes_its_compaction_along
                the_partial_answer_of_a_gone_owner_is_in_the_head_it_moved_to
                what_the_server_counted_holds_until_the_view_changes
                a_turn_that_was_asked_to_stop_may_still_compact
            }
            revisions {
                every_change_that_a_client_can_see_makes_another_revision
                what_changes_nothing_for_a_client_leaves_the_revision
                only_the_expected_revision_is_changed
                what_does_not_exist_is_at_no_revision
                of_many_that_expect_one_revision_one_is_let_in
                a_turn_that_would_have_to_wait_is_refused_at_once
                a_request_that_comes_again_was_at_its_revision_when_it_first_came
                a_conversation_that_is_made_has_a_revision
                a_conversation_that_comes_back_has_new_revisions
            }
            rewinding {
                the_models_view_ends_where_it_was_rewound_to
                what_was_rewound_is_given_back_until_the_next_turn
                what_cannot_be_rewound_is_refused
                all_of_a_conversation_can_be_rewound
                a_summary_of_what_is_still_shown_stays
                a_summary_that_was_prepared_before_is_void
                a_pin_of_what_was_rewound_keeps_nothing
                a_branch_at_a_rewound_message_has_the_history_of_that_message
                a_failed_turn_before_what_was_rewound_is_tried_again_in_its_place
                a_turn_that_began_anew_shows_its_first_place_if_the_later_one_is_rewound
                only_the_expected_revision_is_rewound
                an_earlier_response_shows_what_was_said_up_to_it
            }
            undoing {
                an_undo_gives_the_range_back_and_keeps_what_was_said_since
                an_undo_is_a_row_of_the_ledger
                compactions_are_undone_from_the_last_to_the_first
                what_cannot_be_undone_is_refused_and_changes_nothing
                a_compaction_can_follow_an_undo
                of_two_undos_at_once_one_happens
            }
            ledger {
                a_compaction_is_a_row_of_the_ledger
                a_range_without_a_summary_is_a_row_of_its_own_kind_and_can_be_undone
                a_failure_changes_nothing_but_the_ledger
                the_ledger_is_read_a_page_at_a_time_newest_first
                a_ledger_is_hidden_from_other_callers
            }
            branching {
                a_branch_has_what_was_said_up_to_its_point
                a_branch_says_what_it_is
                the_source_of_a_branch_never_notices
                a_branch_may_be_branched
                a_branch_before_a_compaction_has_the_messages_one_after_it_the_summary
                a_turn_that_compacted_is_branched_after_it
                a_branch_is_compacted_and_that_undone
                a_branch_of_a_compacted_branch_goes_along_its_lineage
                inherited_messages_are_carried_and_pinned
                a_call_and_its_results_belong_together_across_the_point
                the_full_view_of_a_branch_has_everything_once
                unanswered_turns_are_inherited
                simultaneous_branches_are_two_conversations
            }
            branching_apart {
                an_undo_in_the_source_changes_no_branch
                a_branch_never_undoes_what_it_inherited
                what_is_no_answer_is_not_branched
                a_source_that_has_changed_is_stale
                a_branch_has_the_session_key_of_its_source
                a_retracted_first_turn_leaves_nothing_of_a_branch
                turns_that_waited_in_a_branch_make_it
                a_later_turn_of_a_branch_is_retracted_alone
                a_branch_that_failed_is_tried_again
                a_repeated_branch_is_recognised
                a_branch_whose_owner_is_gone_goes_on
            }
            responses {
                a_turn_leads_to_its_conversation_by_each_of_its_names
                a_response_that_cannot_be_fetched_leads_nowhere
                a_record_has_what_a_response_shows
                a_record_is_whole_after_a_split_during_the_turn
                a_further_attempt_answers_its_own_request
                a_response_that_waits_is_known
                a_forgotten_response_leaves_what_was_said
                old_responses_are_forgotten_and_their_conversation_goes_on
                a_response_is_hidden_from_other_callers
            }
            pinning {
                a_message_is_pinned_until_it_is_let_go
                what_was_not_said_is_not_pinned
                a_call_and_its_results_are_pinned_together
                only_so_many_are_pinned
                what_was_cut_off_is_not_pinned
                what_is_pinned_stays_so_through_compactions
            }
            describing {
                a_conversation_is_made_without_a_turn
                a_made_conversation_takes_turns
                a_made_conversation_stays_when_its_first_turn_is_taken_back
                a_name_that_leads_anywhere_is_not_made_again
                a_name_of_our_own_form_is_not_made
                a_name_of_our_own_form_does_not_tell_whether_another_caller_has_it
                a_conversation_without_a_session_key_is_given_one_and_keeps_it
                of_simultaneous_makers_one_makes_it
                a_made_conversation_has_its_session_key
                metadata_changes_and_the_history_stays
                what_is_not_there_is_not_changed
            }
            deleting {
                a_deleted_conversation_leaves_nothing
                what_a_client_named_starts_afresh
                an_empty_conversation_is_deleted
                a_busy_conversation_is_not_deleted
                waiting_turns_keep_a_conversation_from_being_deleted
                a_gone_owners_turns_go_with_their_conversation
                what_is_not_there_is_not_deleted
                idempotency_keys_of_deleted_turns_are_free
                a_retry_joins_nothing_that_was_deleted
                history_that_was_deleted_is_stale
                of_simultaneous_deletions_one_happens
                deletions_and_turns_at_once_leave_whole_conversations
            }
            deleting_sources {
                a_branch_goes_on_as_before
                every_order_of_deletion_leaves_the_others_as_they_were
                a_branch_stands_on_what_its_deleted_source_compacted
                a_branch_goes_on_to_compact_and_undo
                what_was_deleted_is_not_branched
                a_name_that_is_taken_again_is_not_the_parent
                a_deleted_branch_changes_nothing_in_its_source
                a_branch_that_waits_to_be_made_keeps_what_it_inherits
            }
            declaring {
                a_helper_says_what_it_is_and_whose
                a_turn_makes_a_helper
                what_comes_from_a_keyed_conversation_is_for_the_same_people
                a_continuation_stays_what_its_conversation_is
                a_declared_branch_begins_at_the_end_of_its_source
                what_cannot_be_declared_is_refused_and_leaves_nothing
                a_parent_must_exist_for_the_caller
                a_parent_that_comes_to_nothing_stays_readable
            }
            branching_idle {
                a_branch_at_the_end_has_all_that_was_said
                a_branch_at_a_message_ends_with_the_answer_it_belongs_to
                a_branch_goes_by_the_compactions_of_its_place
                what_has_no_answer_is_no_end
                a_branch_is_branched_where_it_inherits
                a_missing_source_or_message_is_not_branched
                what_is_inherited_without_a_turn_is_kept
            }
            branching_busy {
                a_second_prompt_becomes_a_branch
                a_turn_in_an_idle_conversation_makes_no_branch
                a_branch_of_an_unanswered_conversation_inherits_nothing
                a_conversation_with_waiting_turns_counts_as_busy
                a_further_attempt_waits_where_it_belongs
                a_busy_conversation_that_changed_is_stale
                a_branch_keeps_to_its_sources_key
                a_repeated_prompt_finds_its_branch
                simultaneous_prompts_never_wait
            }
            ending {
                a_title_changes_and_goes
                an_archived_conversation_still_takes_turns
                an_ended_conversation_takes_no_turns_until_it_is_opened
                a_split_conversation_ends_at_its_head
                a_busy_conversation_is_not_ended
                what_is_not_there_is_not_ended
            }
            events {
                every_way_of_making_a_conversation_writes_one_created_event
                a_turn_writes_no_event
                compactions_and_moved_heads_are_events
                titles_and_archiving_are_events_when_they_change
                an_end_and_a_reopening_are_one_event_each
                a_branched_event_comes_after_the_created_event
                an_import_writes_events
                a_deleted_conversation_leaves_only_its_deleted_event
                a_retracted_conversation_has_a_deleted_event
                a_refused_operation_writes_no_event
                simultaneous_first_uses_are_one_creation
            }
            events_feed {
                a_reader_goes_on_where_it_was
                a_feed_is_hidden_from_other_tenants
                a_caller_gets_no_events_of_keys_it_may_not_use
                a_key_that_comes_later_hides_earlier_events
                a_retraction_is_an_event_only_for_callers_that_may_use_its_key
                events_that_are_no_longer_kept_are_a_gap
                an_unknown_place_is_a_gap
                followers_are_woken_by_any_instance
            }
            titles {
                a_turn_brings_a_title_once
                a_title_that_is_an_excerpt_is_found_only_in_its_message
                a_title_is_made_between_turns
                a_title_that_is_an_excerpt_goes_with_its_message
                a_given_title_stays
                a_title_that_was_taken_away_stays_away
                a_branch_has_a_title_of_its_own
                what_is_not_there_gets_no_title
            }
            deleting_families {
                each_node_goes_alone_or_with_all_below_it
                nothing_goes_if_any_of_them_is_busy
                what_the_caller_cannot_see_stays
                a_parents_name_that_is_taken_again_has_no_children
                families_that_grow_while_they_are_deleted_are_whole
            }
            filtering {
                kinds_are_told_apart
                every_order_has_every_row_once
                rows_can_be_skipped
                sessions_are_rows_of_their_own
                a_long_chain_is_read_a_page_at_a_time
                children_and_roots_are_found_by_any_name
                titles_sources_and_times_filter_a_list
                archived_conversations_are_listed_when_asked_for
                a_keys_conversations_are_listed
                rows_that_are_added_are_neither_skipped_nor_repeated
                a_list_tells_answered_conversations_from_unanswered_ones
            }
            lineage {
                a_graph_has_what_is_above_and_below
                a_node_is_the_session_it_says
                a_deleted_parent_is_a_name_without_a_node
                a_graph_ends_where_the_caller_may_not_see
                a_cursor_of_another_graph_is_refused
                what_grows_while_it_is_read_is_read_once
            }
            finding {
                a_message_is_found_wherever_it_was_said
                messages_with_random_ids_are_found_too
                an_attempt_has_messages_of_its_turn
                the_partial_answer_of_a_gone_owner_has_the_id_of_its_answer
                a_branch_has_the_messages_it_inherited
                what_was_not_said_here_is_not_found
                a_message_is_hidden_from_other_callers
            }
            rewriting {
                a_removed_message_is_in_no_view
                a_message_says_what_is_left_of_it
                a_message_that_changed_is_stale
                of_two_rewrites_at_once_one_is_stale
                a_busy_conversation_is_not_rewritten
                a_turn_of_a_gone_owner_blocks_no_rewrite
                what_is_not_there_is_not_rewritten
                what_a_branch_inherits_is_not_rewritten
                what_is_removed_is_not_carried_or_pinned
                a_plan_that_covers_what_was_taken_out_is_stale
                compactions_go_on_over_gaps
            }
            rewriting_turns {
                a_turn_is_what_is_left_of_it
                a_turn_of_which_nothing_is_left_is_no_place_to_branch
                places_are_not_given_again
                places_are_not_given_again_to_a_further_attempt
                a_branch_counts_what_is_left
                a_rewritten_conversation_is_deleted_whole
            }
            importing {
                what_is_brought_is_read_as_it_was_said_and_goes_on
                a_chain_of_sessions_is_one_conversation_at_its_last
                what_is_brought_again_is_there_once
                what_was_said_elsewhere_since_is_added
                a_title_that_was_taken_away_here_is_not_brought_again
                what_was_taken_back_elsewhere_is_taken_back
                what_has_gone_on_here_is_left_alone
                a_branch_here_keeps_what_was_taken_back_elsewhere
                an_id_that_leads_elsewhere_is_not_taken_over
                sessions_that_are_gone_elsewhere_stay_here
                what_is_deleted_here_can_be_brought_again
                parents_and_kinds_are_as_they_were
                what_is_brought_has_its_place_in_the_graph
                what_came_from_it_here_stays_with_what_is_brought_anew
                a_stranger_is_not_the_parent_of_what_was_brought
                names_lead_to_what_is_brought_unless_they_are_taken
                ids_that_look_like_our_own_lead_to_what_is_brought
                an_import_is_another_tenants_own
            }
            restoring {
                what_comes_back_is_what_it_was
                what_was_left_out_without_a_summary_comes_back_as_that
                what_was_compacted_comes_back_with_its_ledger
                a_branch_comes_back_to_its_source
                a_branch_comes_back_without_its_source
                a_family_is_whole_again_in_whatever_order_it_comes
                another_of_the_same_name_is_not_the_parent
                what_comes_twice_is_there_once
                a_rehearsal_changes_nothing
                names_that_are_taken_are_not_taken_over
                what_does_not_fit_together_is_refused
                a_copy_stands_on_no_compaction_of_others
                a_copy_inherits_from_no_key_but_its_own
                a_copy_is_not_its_own_ancestor
                only_a_first_session_comes_from_elsewhere
                what_a_session_cannot_be_is_refused
                numbers_that_cannot_be_true_are_refused
                a_copy_belongs_to_its_tenant
                a_turn_that_runs_comes_back_as_one_that_was_cut_off
            }
            restoring_branches {
                a_branch_comes_back_with_a_compaction_whose_turn_left_nothing
                a_branch_is_answered_by_the_answers_that_it_inherits
                an_answer_that_was_removed_was_given
            }
            searching {
                what_was_said_is_found_by_its_words
                parts_of_words_are_found_after_whole_words
                scripts_without_spaces_are_found_by_one_letter_or_more
                what_was_compacted_away_is_found_where_it_was_said
                what_a_branch_inherits_is_found_once
                a_search_finds_nothing_of_other_callers
            }
            searching_pages {
                a_conversation_is_found_once_unless_asked
                pages_neither_skip_nor_repeat_while_more_is_said
                a_number_in_a_common_word_is_found_on_every_page_once
                more_recent_is_better_if_it_says_as_much
                a_filter_narrows_a_search
                what_is_deleted_is_never_found_again
                what_a_branch_inherits_is_found_there_when_its_source_is_deleted
                what_is_taken_back_is_not_found_and_what_follows_is
                what_is_left_of_a_message_is_found
                instances_index_together
            }
            delegating {
                a_child_says_which_call_made_it
                a_child_that_comes_back_still_says_which_call_made_it
                children_of_a_call_are_told_from_others
                a_call_whose_id_is_used_again_has_its_own_children
                after_a_crash_the_model_is_told_what_children_had_answered
                after_a_crash_what_children_had_answered_is_cut_like_any_result
                the_last_answer_of_a_child_counts
                a_deleted_child_that_a_branch_inherits_has_no_call
            }
            spending {
                a_conversation_alone_is_its_own_tree
                what_herma_asks_for_itself_counts_in_the_tree_alone
                costs_of_steps_and_ends_add_up
                a_tree_has_everything_below_it
                a_tree_has_only_what_its_reader_may_see
                what_is_deleted_no_longer_counts
                what_comes_back_has_used_what_it_had
                tenants_have_trees_of_their_own
            }
            keys {
                a_key_keeps_its_limits
                a_key_stands_for_its_tenant_until_it_is_revoked
                keys_are_listed_oldest_first
                a_tenant_is_made_once
            }
        }
    };
    (@ $engine:expr; $($part:ident { $($behaviour:ident)+ })+) => {
        $(mod $part {
            $(#[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                let engine = $engine;
                let world = $crate::contract::World::new(&engine).await;
                $crate::contract::$part::$behaviour(&world).await;
                world.holds_together().await;
            })+
        })+
    };
}
