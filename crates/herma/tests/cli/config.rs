use std::fs;

use crate::Terminal;

#[test]
fn a_typo_is_refused_with_its_key_and_the_nearest_match() {
    let terminal = Terminal::new();
    fs::create_dir(terminal.data()).unwrap();
    fs::write(terminal.data().join("herma.toml"), "[server]\nlissten = \"127.0.0.1:1\"\n").unwrap();
    for command in ["config", "serve", "chat"] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(terminal.run(&[command]).transcript(), @"
            exit 2
            --- stdout
            --- stderr
            error: unknown setting `server.lissten` (in DATA/herma.toml); did you mean `server.listen`?
            ");
        }
    }
    assert_eq!(
        fs::read_dir(terminal.data()).unwrap().count(),
        1,
        "nothing is made for a configuration that is refused"
    );
}

#[test]
fn the_configuration_in_force_is_toml_that_says_where_it_came_from() {
    let terminal = Terminal::new();
    fs::create_dir(terminal.data()).unwrap();
    let file = "[upstream]\nmodel = \"m\"\napi_key = \"hunter2\"\n[jobs]\nmax_running = 1\n";
    fs::write(terminal.data().join("herma.toml"), file).unwrap();
    let mut command = terminal.command(&["config"]);
    command.env("HERMA_LISTEN", "127.0.0.1:99").env("HERMA_MODLE", "x");
    let said = terminal.say(command, "");
    let shown: toml::Table = said.answer().parse().unwrap();
    assert_eq!(shown["server"]["listen"].as_str(), Some("127.0.0.1:99"));
    assert_eq!(shown["upstream"]["model"].as_str(), Some("m"));
    assert!(!said.stdout.contains("hunter2") && !said.stderr.contains("hunter2"));
    assert!(!said.stdout.contains("[jobs]") && !said.stdout.contains("drain_timeout"), "{}", said.stdout);
    insta::assert_snapshot!(crate::redacted(&said.stderr, &said.data), @"
    read from DATA/herma.toml
    the data directory is DATA
    note: HERMA_MODLE is no variable of Herma's and has no effect; did you mean HERMA_MODEL?
    note: `jobs.max_running` is set, but scheduled jobs are not there yet: the setting has no effect
    note: `upstream.api_key` is set without `upstream.base_url`, so the offline model answers; set the URL of the model server with --upstream, HERMA_UPSTREAM or `upstream.base_url`
    ");
}

#[test]
fn a_log_filter_that_cannot_be_read_is_refused() {
    let terminal = Terminal::new();
    let mut command = terminal.command(&["keys", "list"]);
    command.env("HERMA_LOG", "herma=loud");
    let said = terminal.say(command, "");
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.starts_with("error: `telemetry.log` (from HERMA_LOG) is \"herma=loud\", but it must be a level"),
        "{}",
        said.stderr
    );
}

#[test]
fn without_differences_only_all_shows_settings_and_they_begin_a_file() {
    let terminal = Terminal::new();
    let none = terminal.run(&["config"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{}", none.stdout);
    let all = terminal.run(&["config", "--all"]);
    assert!(all.answer().contains("\n# listen = \"127.0.0.1:8642\"\n"), "{}", all.stdout);
    assert!(!all.stdout.contains(&terminal.data().display().to_string()), "no path is frozen in it");
    fs::create_dir(terminal.data()).unwrap();
    fs::write(terminal.data().join("herma.toml"), &all.stdout).unwrap();
    assert_eq!(terminal.run(&["config"]).answer(), "");
}

#[test]
fn shells_and_man_read_what_is_made_for_them() {
    let terminal = Terminal::new();
    for (shell, part) in [("bash", "complete -F _herma"), ("zsh", "#compdef herma"), ("fish", "complete -c herma")] {
        let said = terminal.run(&["completions", shell]);
        assert!(said.answer().contains(part), "{shell}: {}", said.stdout);
    }
    assert!(terminal.run(&["man"]).answer().contains(".TH herma 1"));
    let pages = terminal.data().join("man1");
    terminal.run(&["man", "--output", &pages.display().to_string()]).answer();
    for page in ["herma.1", "herma-chat.1", "herma-sessions-list.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    assert!(!pages.join("herma-help.1").exists());
    let list = fs::read_to_string(pages.join("herma-sessions-list.1")).unwrap();
    let title = format!(" \"herma {}\"", env!("CARGO_PKG_VERSION"));
    for part in [title.as_str(), ".SH EXAMPLES\n.nf\n  herma sessions list   ", "herma sessions list [OPTIONS]"] {
        assert!(list.contains(part), "{part}\n{list}");
    }
    assert!(!list.contains("EXTRA") && !terminal.run(&["man"]).answer().contains("herma\\-help"), "{list}");
}

#[test]
fn verbose_logs_more() {
    let terminal = Terminal::new();
    let quiet = terminal.run(&["chat", "hello"]);
    let loud = terminal.run(&["chat", "hello", "--verbose"]);
    assert!(loud.stderr.len() > quiet.stderr.len(), "{}", loud.stderr);
}
