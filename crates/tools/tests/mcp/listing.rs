//! What is offered, to whom and under which names.

use herma_testkit::McpServer;
use herma_testkit::mcp::LONG_TOOL;
use herma_tools::{Approval, Audience, CallEnd, ServerSettings, Status, Toolbox};

use crate::support::{ANYBODY, call, names, ready, result, stdio, tool, until};

#[tokio::test]
async fn names_schemas_and_approvals_are_those_of_the_contract() {
    let server = McpServer::stdio();
    let settings = stdio("test", &server);
    let approvals = [("crash".to_owned(), Approval::Deny), ("echo".to_owned(), Approval::Auto)].into();
    let toolbox = ready(ServerSettings { approvals, ..settings }).await;
    let add = tool(&toolbox, "add").await;
    assert_eq!((&*add.name, &*add.server, &*add.description), ("test__add", "test", "Adds two numbers"));
    let schema: serde_json::Value = serde_json::from_str(&add.input_schema).unwrap();
    assert_eq!(schema["properties"]["a"]["type"], "number");
    assert_eq!((add.read_only, add.approval), (false, Approval::Ask));
    let note = tool(&toolbox, "read_note").await;
    assert_eq!((note.read_only, note.approval), (true, Approval::Auto));
    assert_eq!(tool(&toolbox, "echo").await.approval, Approval::Auto);
    assert_eq!(&*tool(&toolbox, "notes.search.deep").await.name, "test__notes_search_deep");
    let long = tool(&toolbox, LONG_TOOL).await;
    assert!(long.name.len() == 64 && long.name.starts_with("test__tool_with_a_very_long_name_xxx"), "{}", long.name);
    assert_eq!(toolbox.call(&long, "{}").await, result(&format!("{LONG_TOOL} was called")));

    let offered = toolbox.offered(ANYBODY).await;
    assert!(!names(&offered).contains(&"test__crash"), "a denied tool is not offered");
    let denied = toolbox.find(ANYBODY, "test__crash").expect("a denied tool can be found");
    assert_eq!(denied.approval, Approval::Deny);
    let rows = toolbox.rows(ANYBODY, false).await;
    assert!(rows.iter().any(|row| row.tool.as_ref() == Some(&denied) && row.status == Status::Ready), "and listed");
    assert!(names(&offered).is_sorted() && toolbox.offered(ANYBODY).await == offered);
    assert_eq!(toolbox.find(ANYBODY, "test__unheard_of"), None);
}

#[tokio::test]
async fn lists_leave_tools_out_everywhere() {
    let server = McpServer::stdio();
    let allow = vec!["*e*".to_owned()];
    let deny = vec!["echo".to_owned(), "*.*".to_owned(), "[st]*".to_owned(), "tool_*".to_owned()];
    let toolbox = ready(ServerSettings { allow, deny, ..stdio("t", &server) }).await;
    let offered = toolbox.offered(ANYBODY).await;
    let expected = ["babble", "broken", "environment", "forget", "image", "misshape"];
    let expected: Vec<_> = expected.iter().chain(&["read_note", "refuse_next", "reshape", "structured"]).collect();
    let expected: Vec<_> = expected.iter().map(|name| format!("t__{name}")).collect();
    assert_eq!(names(&offered), expected);
    assert_eq!(toolbox.rows(ANYBODY, false).await.len(), expected.len());
    assert_eq!(toolbox.find(ANYBODY, "t__echo"), None);
}

#[tokio::test]
async fn a_server_is_started_for_those_who_may_use_it_only() {
    let (open, closed) = (McpServer::stdio(), McpServer::stdio());
    let owned = |text: &str| vec![text.to_owned()];
    let closed_to_most =
        ServerSettings { tenants: owned("acme"), session_keys: owned("agent:*"), ..stdio("closed", &closed) };
    let toolbox = Toolbox::new(vec![closed_to_most, stdio("open", &open)]);
    for session_key in [None, Some("other")] {
        let audience = Audience { tenant: "acme", session_key };
        assert!(toolbox.offered(audience).await.iter().all(|tool| &*tool.server == "open"));
        assert!(toolbox.rows(audience, true).await.iter().all(|row| &*row.server == "open"));
    }
    assert_eq!(closed.logged("start"), 0);
    let member = Audience { tenant: "acme", session_key: Some("agent:1") };
    drop(toolbox.offered(member).await);
    until("both run", || {
        toolbox.find(member, "closed__echo").is_some() && toolbox.find(member, "open__echo").is_some()
    })
    .await;
    let offered = toolbox.offered(member).await;
    assert!(names(&offered).contains(&"closed__echo") && names(&offered).contains(&"open__echo"));
    assert!(toolbox.find(member, "closed__echo").is_some());
    assert_eq!(toolbox.find(ANYBODY, "closed__echo"), None);
}

#[tokio::test]
async fn all_pages_are_read_up_to_a_thousand_tools() {
    let server = McpServer::stdio().with(&["--extra", "300", "--page", "7"]);
    let toolbox = ready(stdio("test", &server)).await;
    assert_eq!(toolbox.offered(ANYBODY).await.len(), 320);
    let server = McpServer::stdio().with(&["--extra", "1500", "--page", "100"]);
    let toolbox = ready(stdio("test", &server)).await;
    assert_eq!(toolbox.offered(ANYBODY).await.len(), 1000);
}

#[tokio::test]
async fn a_changed_list_is_read_again() {
    for options in [&[][..], &["--modern"]] {
        let server = McpServer::stdio().with(options);
        let toolbox = ready(stdio("test", &server)).await;
        assert_eq!(toolbox.find(ANYBODY, "test__grown"), None);
        if !options.is_empty() {
            until("a subscription", || server.logged("subscribed") == 1).await;
        }
        assert_eq!(call(&toolbox, "grow", "{}").await, result("grown"));
        until("the new tool", || toolbox.find(ANYBODY, "test__grown").is_some()).await;
        assert_eq!(call(&toolbox, "grown", "{}").await, result("grown was called"));
        assert_eq!(server.logged("start"), 1);
    }
}

#[tokio::test]
async fn a_tool_that_changes_its_schema_is_offered_with_the_new_one() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    let takes = |name: &str| toolbox.find(ANYBODY, "test__echo").is_some_and(|tool| tool.input_schema.contains(name));
    assert!(takes("text") && !takes("loud"));
    assert_eq!(call(&toolbox, "reshape", "{}").await, result("reshaped"));
    until("the new schema", || takes("loud")).await;
    assert_eq!(call(&toolbox, "echo", r#"{"text":"x","loud":true}"#).await, result("x"));
}

#[tokio::test]
async fn a_tool_that_is_gone_is_not_called() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    let mut gone = (*tool(&toolbox, "echo").await).clone();
    gone.tool = "gone".into();
    assert!(matches!(toolbox.call(&gone, "{}").await, CallEnd::NotMade(why) if why.contains("no tool `gone`")));
    gone.server = "elsewhere".into();
    assert!(matches!(toolbox.call(&gone, "{}").await, CallEnd::NotMade(why) if why.contains("no MCP server")));
}
