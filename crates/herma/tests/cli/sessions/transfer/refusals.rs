use serde_json::Value;

use crate::Terminal;
use crate::sessions::browse::three;
use crate::sessions::json;

#[test]
fn a_file_is_whole_or_not_there() {
    let terminal = three();
    let file = terminal.file("out.md");
    let line = format!("export trip --output {}", file.display());
    let said = terminal.sessions(&line);
    assert_eq!(
        (said.answer(), said.stderr.as_str()),
        ("", format!("1 conversation written to {}\n", file.display()).as_str())
    );
    let written = std::fs::read(&file).unwrap();
    let again = terminal.sessions(&line);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""));
    assert!(again.stderr.contains("is there already; --force writes over it"), "{}", again.stderr);
    assert_eq!(std::fs::read(&file).unwrap(), written);
    let other = terminal.sessions(&format!("export nobody --force --output {}", file.display()));
    assert!(other.stderr.contains("no conversation is known by nobody"), "{}", other.stderr);
    let nowhere = terminal.sessions("export trip --output no/such/place.md");
    assert!(nowhere.stderr.contains("cannot write no/such/place.md"), "{}", nowhere.stderr);
    let left: Vec<_> =
        std::fs::read_dir(terminal.home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing half done stays: {left:?}");
}

#[cfg(unix)]
#[test]
fn what_was_said_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let terminal = three();
    terminal.exported("trip", "trip.jsonl");
    let mode = std::fs::metadata(terminal.file("trip.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_written_to_and_not_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let terminal = three();
    let (pipe, link, meant) = (terminal.file("pipe"), terminal.file("link.md"), terminal.file("meant.md"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let to_pipe = terminal.sessions(&format!("export trip --force --output {}", pipe.display()));
    assert_eq!(to_pipe.code, 0, "{}", to_pipe.stderr);
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(reader.join().unwrap().starts_with("# "));
    std::fs::write(&meant, "old").unwrap();
    symlink(&meant, &link).unwrap();
    let to_link = terminal.sessions(&format!("export trip --force --output {}", link.display()));
    assert_eq!(to_link.code, 0, "{}", to_link.stderr);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&meant).unwrap().starts_with("# "));
}

#[test]
fn some_or_all_are_exported() {
    let terminal = three();
    let handles = |lines: &[String]| -> Vec<String> {
        let of = |line: &String| serde_json::from_str::<Value>(line).unwrap();
        lines
            .iter()
            .map(of)
            .filter(|line| line["type"] == "session")
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect()
    };
    terminal.sessions("archive recipe").answer();
    let all = "--format jsonl";
    for (what, ids) in [
        ("--all", ["trip", "recipe", "trip-by-train"].as_slice()),
        ("--all --archived", &["recipe"]),
        ("--all --kind main", &["trip", "recipe"]),
        ("trip-by-train trip", &["trip", "trip-by-train"]),
        ("trip-by trip-by-train", &["trip", "trip-by-train"]),
        ("recip", &["recipe"]),
    ] {
        let said = terminal.sessions(&format!("export {what} {all}"));
        let lines: Vec<String> = said.answer().lines().map(str::to_owned).collect();
        assert_eq!(handles(&lines), ids, "{what}");
        assert_eq!(said.stderr, "");
    }
    let neither = terminal.sessions("export --format jsonl");
    assert_eq!(neither.code, 2, "{}", neither.stderr);
}

#[test]
fn a_rehearsal_changes_nothing() {
    let (here, there) = (three(), Terminal::new());
    let lines = here.exported("--all", "all.jsonl");
    let said = there.imported(&lines, " --dry-run");
    assert_eq!(
        said.answer(),
        "nothing was changed; it would be: 3 conversations: 3 brought back, 0 already here, 0 left as they are, 0 refused; 4 messages"
    );
    assert!(!there.data().exists());
    there.run_with_input(&["chat", "--session", "other"], "hello\n").answer();
    assert_eq!(there.imported(&lines, " --dry-run").answer(), said.answer());
    assert_eq!(there.sessions("list --json").answer().lines().count(), 1);
}

#[test]
fn a_conflict_is_reported_and_the_other_conversations_are_imported() {
    let (here, there) = (three(), Terminal::new());
    let lines = here.exported("--all", "all.jsonl");
    there.run_with_input(&["chat", "--session", "recipe"], "my own\n").answer();
    insta::assert_snapshot!(there.imported(&lines, "").transcript(), @"
    exit 1
    --- stdout
    3 conversations: 2 brought back, 0 already here, 0 left as they are, 1 refused; 2 messages
    --- stderr
    conv_<1> (line 8): refused: recipe is another conversation's here; delete that one to bring this back
    ");
    let report = json(&{
        let mut said = there.imported(&lines, " --json");
        assert_eq!(said.code, 1);
        said.code = 0;
        said
    });
    assert_eq!(report["conversations"], serde_json::json!({"made": 0, "already_here": 2, "left": 0, "refused": 1}));
    assert_eq!((&report["object"], &report["complete"]), (&"sessions.import".into(), &true.into()));
    assert!(report["problems"][0]["conversation_id"].is_string() && report["problems"][0]["line"].is_number());
    there.run_with_input(&["chat", "--session", "trip"], "and then?\n").answer();
    there.sessions("delete recipe --yes").answer();
    let said = there.imported(&lines, "");
    assert_eq!(
        said.answer(),
        "3 conversations: 1 brought back, 1 already here, 1 left as they are, 0 refused; 2 messages"
    );
    assert!(said.stderr.contains("it is here, and has changed here or there since"), "{}", said.stderr);
    assert!(there.sessions("show trip").answer().contains("and then?"));
}

#[test]
fn a_damaged_file_brings_what_came_whole() {
    let here = three();
    let lines = here.exported("--all", "all.jsonl");
    let end = lines.iter().position(|line| line.contains("\"type\":\"end\"")).unwrap();
    let there = Terminal::new();
    insta::assert_snapshot!(there.imported(&lines[..end + 3], "").transcript(), @"
    exit 1
    --- stdout
    1 conversations: 1 brought back, 0 already here, 0 left as they are, 0 refused; 2 messages
    --- stderr
    in.jsonl is damaged: it ends after line 9 and has no last line: it was cut off; what came before was imported, and nothing of what did not come whole
    ");
    let mut torn = lines.clone();
    torn[end + 2].truncate(40);
    let said = there.imported(&torn, "");
    assert_eq!(said.code, 1);
    assert!(
        said.stderr.contains(&format!("is damaged: line {}: it is no line of an export", end + 3)),
        "{}",
        said.stderr
    );
    assert_eq!(there.sessions("list --json").answer().lines().count(), 1);
    for (line, why) in [
        (lines[0].replace("\"version\":1", "\"version\":2"), "it is of version 2, and this Herma reads up to 1"),
        ("# trip".to_owned(), "this is no export of Herma's"),
    ] {
        let nobody = Terminal::new();
        let mut other = lines.clone();
        other[0] = line;
        let said = nobody.imported(&other, "");
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(said.stderr.contains("nothing was imported") && said.stderr.contains(why), "{}", said.stderr);
        assert!(!nobody.data().exists());
    }
    let missing = there.sessions("import nowhere.jsonl");
    assert!(missing.stderr.contains("cannot read nowhere.jsonl"), "{}", missing.stderr);
}

#[test]
fn tenants_have_their_own() {
    let (here, there) = (three(), Terminal::new());
    there.run(&["keys", "create", "--tenant", "web"]).answer();
    let lines = here.exported("--all", "all.jsonl");
    there.imported(&lines, " --tenant web").answer();
    assert_eq!(there.sessions("list --json").answer(), "");
    assert_eq!(there.sessions("list --tenant web --json").answer().lines().count(), 3);
    assert_eq!(there.sessions("export trip").code, 1);
    let other = there.imported(&lines, "");
    assert_eq!(other.code, 1);
    assert!(other.stderr.contains("is another conversation's here"), "{}", other.stderr);
    let nobody = there.imported(&lines, " --tenant wbe");
    assert!(nobody.stderr.contains("there is no tenant wbe"), "{}", nobody.stderr);
}

#[test]
fn a_pipe_goes_from_one_store_to_another() {
    let (here, there) = (three(), Terminal::new());
    let exported = here.sessions("export --all --format jsonl");
    there.run_with_input(&["sessions", "import", "-"], exported.stdout.as_str()).answer();
    assert_eq!(there.sessions("list --json").answer().lines().count(), 3);
}
