"""What `./dev test` leaves to `./dev test --all`: tests that start processes by the hundred, wait, race or repeat.

``ROOMS`` are marked ``slow`` but for ``SAMPLES``: the longer beginning decides. A single test elsewhere says
``@pytest.mark.slow`` itself.
"""

from __future__ import annotations

ROOMS = (
    "agents/test_agents_killed.py",
    "agents/test_protocols.py",
    "app/checkpoints/test_checkpoint_command.py",
    "app/checkpoints/test_checkpoint_kills.py",
    "app/checkpoints/test_files_put_back.py",
    "app/gates/",
    "app/history/test_histories.py",
    "app/history/test_replay_command.py",
    "app/proof/test_chaos.py",
    "app/rollback/test_rollback_capture.py",
    "app/rollback/test_rollback_cli.py",
    "app/rollback/test_rollback_kills.py",
    "app/rollback/test_rollback_standard.py",
    "app/trust/",
    "capabilities/conformance/",
    "capabilities/test_containers_clusters.py",
    "capabilities/test_containers_images.py",
    "capabilities/test_files_kills.py",
    "capabilities/test_files_races.py",
    "capabilities/test_git_",
    "capabilities/test_http_",
    "capabilities/test_llm_",
    "capabilities/test_python_run.py",
    "capabilities/test_python_versions.py",
    "capabilities/test_research_web.py",
    "capabilities/test_sql_postgresql.py",
    "capabilities/test_validate_",
    "cli/",
    "crash/",
    "docs/test_docs_commands.py",
    "docs/test_plans.py",
    "e2e/",
    "e2e/test_plan_python.py::test_functions_and_lines_run_and_replay_the_same_without_their_files",
    "engine/",
    "fuzz/",
    "journal/test_journal_kill.py",
    "knowledge/test_artifacts_collecting.py",
    "packaging/",
    "plan/test_expr_evaluate.py::test_whatever_the_tree_and_the_values_the_only_exception_is_ours",
    "plan/test_plan_schema.py::test_the_check_agrees_with_the_jsonschema_library_about_plans_that_were_tampered_with",
    "plugins/test_plugins_command.py",
    "plugins/test_plugins_example.py",
    "plugins/test_plugins_faults.py",
    "plugins/test_plugins_hanging.py",
    "plugins/test_plugins_observers.py",
    "plugins/test_plugins_projectfiles.py",
    "plugins/test_plugins_streams.py",
    "safety/sandbox/",
    "safety/secrets/test_canaries.py",
    "safety/secrets/test_concealed.py",
    "safety/secrets/test_granting.py",
    "safety/secrets/test_killed.py",
    "safety/secrets/test_models_and_forges.py",
    "security/",
    "security/test_file_scopes.py::test_a_path_that_is_refused_is_found_where_it_stands_and_nothing_starts_until_the_line_is_there",
    "security/test_file_scopes.py::test_a_snapshot_keeps_nothing_that_may_not_be_read",
    "security/test_file_scopes.py::test_what_is_copied_needs_to_be_readable_and_not_writable",
    "security/test_python_scan.py::test_any_depth_has_an_answer",
    "security/test_rights_narrow.py::test_a_run_that_goes_on_is_not_given_what_was_denied_at_its_start",
    "simulation/",
)
"""Beginnings of the names of tests, below ``tests``."""

SAMPLES = (
    "agents/test_agents_killed.py::test_a_call_that_was_cut_off_is_settled_as_the_task_says",
    "agents/test_protocols.py::test_a_fault_in_the_middle_loses_no_call_and_makes_none_twice",
    "agents/test_protocols.py::test_a_reply_that_only_thinks_is_not_an_answer",
    "agents/test_protocols.py::test_ids_of_calls_that_are_missing_or_doubled_do_no_harm",
    "app/checkpoints/test_checkpoint_command.py::test_everything_is_as_it_was_after_files_are_put_back",
    "app/gates/test_gates_hints.py::test_a_gate_that_there_is_not_is_answered_with_the_nearest_one[Sign/gate-sign]",
    "app/gates/test_gates_instruction.py::test_an_instruction_waits_at_a_gate_that_says_how_to_answer",
    "app/history/test_histories.py::test_a_history_replays_exactly",
    "app/trust/test_origin.py",
    "app/trust/test_outside_plans.py::TestWithoutATerminal::test_it_is_refused_with_the_summary_and_both_ways_and_nothing_is_left_behind",
    "app/trust/test_summary.py",
    "capabilities/conformance/test_conformance.py::test_a_capability_holds_to_what_is_asked_of_all[files.",
    "capabilities/conformance/test_conformance.py::test_every_capability_has_a_case_and_no_case_is_of_another",
    "capabilities/conformance/test_conformance.py::test_whoever_is_exempt_from_a_check_says_why",
    "cli/test_app_authoring.py",
    "cli/test_cli_documents.py",
    "cli/test_cli_revise.py::test_a_plan_with_a_failing_task_is_mended_and_finished_and_nothing_runs_twice",
    "cli/test_cli_runs.py::test_a_killed_run_is_shown_as_cut_off_and_its_doubt_is_settled_by_hand",
    "cli/test_cli_runs.py::test_a_run_that_completes_gives_0_and_one_json_object",
    "cli/test_cli_runs.py::test_a_run_that_fails_gives_1_and_ends_with_the_failure",
    "cli/test_hostile_values.py",
    "crash/test_kill_everywhere.py::test_killed_at_every_journal_write_a_run_ends_as_if_nothing_had_happened[0]",
    "crash/test_overtaken.py",
    "docs/test_docs_commands.py::test_ci_ends_with_the_command_of_the_readme_and_all_tests",
    "docs/test_docs_commands.py::test_commands_print_what_the_page_shows[README.md]",
    "docs/test_docs_commands.py::test_commands_print_what_the_page_shows[docs/contributing/",
    "docs/test_docs_commands.py::test_every_page_is_reached_from_the_index",
    "docs/test_docs_commands.py::test_links_lead_somewhere",
    "docs/test_docs_commands.py::test_pages_made_from_the_code_are_up_to_date",
    "docs/test_docs_commands.py::test_pieces_of_plans_shown_can_be_read",
    "docs/test_docs_commands.py::test_the_readme_starts_with_two_commands_and_nothing_before_them",
    "docs/test_plans.py::test_every_plan_has_an_ending_in_the_table",
    "docs/test_plans.py::test_lint_finds_no_errors",
    "e2e/test_plan_files.py::test_an_edit_is_taken_back_when_the_check_fails",
    "e2e/test_plan_git.py::test_a_feature_whose_tests_fail_is_taken_back_byte_for_byte",
    "e2e/test_plan_python.py",
    "engine/test_engine_clocks.py",
    "engine/test_engine_live.py::TestStopping::test_the_first_signal_asks_and_the_second_kills",
    "engine/test_engine_processes.py::test_what_an_earlier_runner_left_behind_is_ended_before_the_run_goes_on",
    "engine/test_engine_requests.py",
    "engine/test_engine_usage.py",
    "fuzz/test_lint_any_bytes.py::test_a_plan_that_once_broke_a_promise_keeps_it",
    "fuzz/test_lint_bounds.py::test_too_many_tasks_are_refused_before_one_is_looked_at",
    "journal/test_journal_kill.py::test_a_stale_holder_is_refused_and_cannot_damage_the_run",
    "safety/sandbox/test_sandbox_choice.py",
    "safety/sandbox/test_sandbox_escapes.py::test_what_a_task_writes_below_the_working_directory_stays",
    "security/test_file_scopes.py",
    "security/test_hostile_agents.py::test_what_a_reply_wants_is_refused",
    "security/test_hostile_agents.py::test_orders_in_what",
    "security/test_injections.py::test_values_stay_text_through_outputs_templates_files_and_inputs",
    "security/test_python_scan.py",
    "security/test_rights_narrow.py",
    "security/test_taint_ways.py",
    "simulation/test_revision_simulation.py::test_a_plan_edited_in_the_middle_of_a_run_keeps_what_is_unchanged_and_nothing_else[0]",
    "simulation/test_simulation.py::test_a_crash_at_any_journal_write_leads_to_the_same_final_state[0]",
    "simulation/test_simulation.py::test_promises_hold_for_random_plans_and_failures[0]",
)
"""Beginnings of the names of tests in these rooms that stay: every promise of ``docs/explanation/promises.md`` has one."""


LONG = (
    "docs/test_docs_commands.py",
    "docs/test_plans.py",
    "plugins/test_plugins_hanging.py",
    "crash/test_kill_everywhere.py",
    "e2e/test_printed_plans.py",
    "simulation/test_nested_simulation.py",
    "fuzz/test_lint_any_bytes.py",
    "fuzz/test_lint_bounds.py",
    "capabilities/test_git_changes.py",
    "e2e/test_plan_git.py",
    "e2e/test_plan_http.py",
)
"""Files that take most of a minute or more. They begin first, so that none is alone at the end."""


def is_slow(name: str) -> bool:
    """Whether a test is left out: of the beginnings that fit ``name``, its node id below ``tests``, the longest decides."""
    room, sample = (
        max((len(start) for start in table if name.startswith(start)), default=0) for table in (ROOMS, SAMPLES)
    )
    return room > sample


def has_samples(path: str) -> bool:
    """Whether a file of a slow room has tests that stay."""
    return any(sample.startswith(path) for sample in SAMPLES)
