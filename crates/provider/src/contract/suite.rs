/// One test per clause of the contract. The expression makes a [`Harness`](crate::contract::Harness)
/// and may await; the crate that uses this needs `tokio` with its multi-threaded runtime.
#[macro_export]
macro_rules! contract_suite {
    ($harness:expr) => {
        $crate::contract_clauses! { $harness;
            lifecycle:
                a_created_sandbox_runs,
                two_creates_make_two_sandboxes,
                ensure_makes_one_sandbox_for_a_key_and_then_finds_it,
                two_ensures_at_once_make_one_sandbox,
                ensure_wakes_a_paused_sandbox,
                ensure_starts_an_ended_sandbox_again_on_its_disk,
                ensure_starts_a_stopped_sandbox_again_on_its_disk,
                terminating_twice_is_fine,
                terminating_an_unknown_sandbox_is_fine,
                an_unknown_sandbox_is_not_found,
                the_disk_is_still_there_after_terminate,
                stopping_twice_gives_the_same_snapshot,
                a_paused_sandbox_can_be_stopped,
                an_ended_sandbox_takes_no_commands,
                a_name_in_use_is_refused,
                a_removed_sandbox_is_unknown,
                removing_twice_is_fine,
                a_snapshot_outlives_the_removal_of_its_sandbox;
            exec:
                stdout_comes_back_and_nothing_else,
                stderr_is_apart_from_stdout,
                the_exit_code_comes_back,
                death_by_signal_is_128_and_its_number,
                a_signal_reaches_the_command,
                stdin_reaches_the_command_and_its_end_too,
                binary_bytes_pass_both_ways,
                the_environment_is_the_sandboxs_and_the_commands_over_it,
                a_command_runs_where_it_is_told,
                a_missing_directory_is_refused,
                a_command_runs_as_the_user_it_is_told,
                an_unknown_user_is_refused,
                an_unknown_program_is_refused,
                arguments_with_odd_bytes_arrive_as_they_are,
                a_terminal_has_the_size_it_is_given,
                a_terminal_can_be_resized,
                a_detached_command_outlives_its_handle,
                a_timeout_kills_everything_the_command_started,
                a_command_within_its_timeout_is_left_alone,
                dropping_the_handle_kills_everything_the_command_started,
                much_output_arrives_whole,
                a_slow_reader_slows_the_command_and_nobody_else,
                fifty_commands_run_at_once;
            files:
                what_is_written_is_read_back,
                one_file_is_read_by_its_own_path,
                what_the_sandbox_wrote_is_read_and_the_other_way_round,
                writing_again_replaces_content_and_mode,
                every_mode_is_kept,
                a_large_file_passes_both_ways,
                a_missing_folder_is_empty,
                an_empty_folder_has_only_itself,
                names_may_have_every_byte_but_slash_and_zero,
                a_path_that_leads_out_of_the_folder_is_refused,
                a_file_is_written_as_the_user_asked_for,
                root_may_give_files_away,
                a_link_out_of_the_sandbox_is_never_followed_on_the_host;
            doors:
                a_port_in_the_sandbox_answers_over_dial,
                two_dialled_connections_are_apart,
                the_end_of_a_dialled_connection_is_seen,
                a_closed_port_is_refused_at_once,
                a_paused_sandbox_refuses_dial_and_serve_at_once,
                a_door_carries_words_both_ways,
                two_at_a_door_are_told_apart,
                two_doors_are_apart,
                a_bad_name_for_a_door_is_refused;
            pause:
                a_pause_keeps_what_the_provider_says_it_keeps,
                nothing_runs_while_paused,
                looking_at_a_paused_sandbox_leaves_it_paused,
                pausing_twice_is_fine,
                resuming_twice_is_fine,
                a_sandbox_can_be_paused_again_and_again,
                a_paused_sandbox_refuses_commands_at_once,
                a_command_under_way_goes_on_after_a_pause,
                a_resumed_sandbox_is_the_same_one,
                the_environment_is_there_after_a_pause,
                a_paused_sandbox_can_be_ended;
            snapshots:
                a_snapshot_of_a_running_sandbox_keeps_every_kind_of_file,
                a_stop_keeps_every_kind_of_file,
                a_socket_file_is_no_obstacle_to_a_snapshot,
                what_was_deleted_stays_deleted,
                what_was_changed_in_place_is_kept,
                directories_of_a_snapshot_can_be_renamed,
                the_original_goes_on_after_a_snapshot,
                changes_after_a_snapshot_are_not_in_it,
                two_sandboxes_of_one_snapshot_share_nothing_more,
                deleting_a_snapshot_leaves_what_was_made_from_it,
                an_unknown_snapshot_is_not_found,
                another_providers_snapshot_is_refused,
                a_snapshots_id_names_its_provider;
            fork:
                a_fork_starts_from_what_is_on_disk_now,
                a_fork_and_its_original_go_their_own_ways,
                the_original_runs_on_through_a_fork,
                three_forks_at_once_each_have_an_identity_of_their_own;
            limits:
                memory_beyond_its_limit_costs_the_command_and_not_the_sandbox,
                processes_beyond_their_limit_are_not_started,
                cpu_beyond_its_share_is_not_given,
                disk_beyond_its_limit_is_not_given,
                one_sandboxs_limit_is_not_anothers;
            labels:
                a_listed_sandbox_carries_all_the_labels_asked_for,
                listing_by_no_label_includes_ours,
                labels_key_and_name_survive_everything_but_removal,
                liveness_of_nobody_is_nothing,
                liveness_of_many_comes_back_for_each,
                health_answers;
            capabilities:
                capabilities_are_the_same_each_time_they_are_asked,
                an_undeclared_capability_is_unsupported_and_changes_nothing,
                a_declared_capability_works,
                extending_moves_the_end_of_a_sandboxs_life,
                a_sandbox_that_pauses_by_itself_is_paused_at_its_end,
                a_memory_snapshot_goes_on_from_where_it_was,
                no_error_shows_a_secret;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! contract_clauses {
    ($harness:expr; $($group:ident: $($clause:ident),*;)*) => {$(
        mod $group {
            #[allow(unused_imports, reason = "what the harness expression names is up to its writer")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $clause() {
                    $crate::contract::run($harness, $crate::contract::$group::$clause).await;
                }
            )*
        }
    )*};
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_clause_that_is_written_is_in_the_suite() {
        let suite = include_str!("suite.rs");
        let files = [
            include_str!("lifecycle.rs"),
            include_str!("exec.rs"),
            include_str!("files.rs"),
            include_str!("doors.rs"),
            include_str!("pause.rs"),
            include_str!("snapshots.rs"),
            include_str!("fork.rs"),
            include_str!("limits.rs"),
            include_str!("labels.rs"),
            include_str!("capabilities.rs"),
        ];
        for line in files.iter().flat_map(|file| file.lines()) {
            let Some(rest) = line.strip_prefix("pub async fn ") else {
                continue;
            };
            let (clause, _) = rest.split_once('(').expect("a function");
            let listed = suite
                .lines()
                .any(|line| line.trim().trim_end_matches([',', ';']) == clause);
            assert!(listed, "{clause} is not in the suite");
        }
    }
}
