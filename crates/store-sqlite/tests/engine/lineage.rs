//! Large graphs and lists, written straight into the file, and rows of earlier releases.

use herma_model::{Alias, Cost, ParentRelation, SessionKind};
use herma_store::{ListFilter, ListOrder, ListView, MOST_DESCENDANTS, Store};
use rusqlite::{Connection, params};

use crate::database::{Database, check_file};
use crate::migrations::{CONVERSATION, written_by};

const MANY: i64 = 10_000;

/// Inserts [`MANY`] helper sessions with the keys `n` from 2 on. `parent` is an SQL expression over `n` that gives the
/// key of the parent. The session with key 1 is the root.
fn insert_helpers(database: &Database, parent: &str) {
    let connection = Connection::open(database.path()).unwrap();
    let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n <= ?1)";
    for statement in [
        format!(
            "{numbers} INSERT INTO conversations (pk, tenant_pk, id, head_pk, root_pk, origin_kind, source, version, 
             fence, next_seq, created_at, updated_at, parent_pk, title)
             SELECT n, 1, randomblob(16), n, n, 'auxiliary', 'api', 0, 0, 1, n, n / 7, ({parent}), 'helper ' || n
             FROM numbers"
        ),
        format!(
            "{numbers} INSERT INTO sessions (pk, tenant_pk, conversation_pk, id, kind, depth, parent_pk,
             parent_id, parent_relation, creator_kind, created_at)
             SELECT n, 1, n, 'helper ' || n, 'auxiliary', 0, ({parent}),
             iif(({parent}) = 1, 'trip', 'helper ' || ({parent})), 'delegate', 'delegate_task', n FROM numbers"
        ),
        format!(
            "{numbers} INSERT INTO aliases (tenant_pk, namespace, alias, conversation_pk, session_pk)
             SELECT 1, 'session', 'helper ' || n, n, n FROM numbers"
        ),
    ] {
        connection.execute(&statement, params![MANY]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_of_ten_thousand_is_read_whole_whatever_its_shape() {
    for parent in ["1", "n - 1", "n / 2", "1 + (n - 2) / 100"] {
        let database = Database::new();
        let world = database.world().await;
        world.talk(&world.one, "trip", "hello", "hi").await;
        insert_helpers(&database, parent);
        let (nodes, edges) = world.whole_graph(&world.scope, "trip", 500).await;
        let mut ids: Vec<_> = nodes.iter().map(|node| node.row.session.id.to_string()).collect();
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), count, edges.len()), (MANY as usize + 1, MANY as usize + 1, MANY as usize), "{parent}");
        assert!(edges.iter().all(|edge| edge.has_node));
        world.one.close().await;
        world.two.close().await;
        check_file(&database.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_reaches_the_scan_limit_has_a_next_page() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    insert_helpers(&database, "1");
    for (order, view) in
        [(ListOrder::UpdatedDescending, ListView::Conversations), (ListOrder::CreatedDescending, ListView::Sessions)]
    {
        let rare = ListFilter { title: Some("HELPER 2".to_owned()), order, view, limit: 10, ..ListFilter::default() };
        let exact = ListFilter { title: Some("helper 2 and no other".to_owned()), ..rare.clone() };
        let page = world.two.conversations(&world.scope, exact.clone()).await.unwrap();
        assert!(page.rows.is_empty() && page.next.is_some(), "the scan limit was reached");
        assert!(world.pages(&world.scope, exact).await.is_empty());
        let found = world.pages(&world.scope, rare).await;
        assert_eq!(found.len(), 1111);
    }
    // With `skip`, the scan limit ends a page only after its first row. Skipped rows do not count.
    for view in [ListView::Conversations, ListView::Sessions] {
        let counted = ListFilter { view, limit: 10, ..ListFilter::default() };
        for (title, skip, found) in
            [("helper 2 and no other", 0, 0), ("helper 7777", 0, 1), ("helper 2", 1_105, 6), ("helper", 9_500, 10)]
        {
            let filter = ListFilter { title: Some(title.to_owned()), skip: Some(skip), ..counted.clone() };
            let page = world.two.conversations(&world.scope, filter).await.unwrap();
            assert_eq!(page.rows.len(), found, "{view:?} {title} {skip}");
        }
    }
    let all = ListFilter { parent: Alias::parse("trip").ok(), ..ListFilter::default() };
    let rows = world.pages(&world.scope, ListFilter { source: Some("api".to_owned()), ..all }).await;
    assert_eq!(rows.len(), MANY as usize, "rows that changed at the same time are not lost");
    world.one.close().await;
    world.two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_ten_thousand_descendants_are_summed_up() {
    for parent in ["1", "n - 1", "1 + (n - 2) / 100"] {
        let database = Database::new();
        let world = database.world().await;
        let turn = world.talk(&world.one, "trip", "hello", "hi").await;
        let own = world.row("trip").await.unwrap().usage;
        insert_helpers(&database, parent);
        let connection = Connection::open(database.path()).unwrap();
        connection.execute("UPDATE conversations SET input_tokens = 1, cost = 2 WHERE pk > 1", []).unwrap();
        let whole = world.row("trip").await.unwrap();
        assert_eq!((whole.usage, whole.usage_tree.input), (own, own.input + MOST_DESCENDANTS as u64), "{parent}");
        assert_eq!(whole.cost.map(Cost::micros), Some(2 * MANY), "{parent}");
        // One more than are summed up.
        world.child(Some("late"), SessionKind::Auxiliary, "helper 10001").await;
        world.talk(&world.one, "late", "hello", "hi").await;
        let cut = world.row("trip").await.unwrap();
        assert!(cut.usage_tree.input >= whole.usage_tree.input, "{parent}");
        assert!(cut.usage_tree.input < whole.usage_tree.input + own.input, "{parent}");
        let spent = world.two.spent(world.scope.tenant, turn.facts.id).await.unwrap();
        assert_eq!((spent.conversation, spent.tree), (own.total(), cut.usage_tree.total()), "{parent}");
        world.one.close().await;
        world.two.close().await;
    }
}

/// A branch of [`CONVERSATION`] that continues in a second session, and a branch of a deleted conversation.
const BRANCHES: &str = "
    INSERT INTO conversations (pk, tenant_pk, id, head_pk, root_pk, previous_pk, origin_kind, source, version, fence,
        next_seq, message_count, created_at, updated_at, deleted)
        VALUES (2, 1, x'00000000000000000000000000000002', 3, 2, 2, 'branch', 'api', 0, 0, 3, 2, 3, 3, 0),
               (4, 1, x'00000000000000000000000000000004', 4, 4, NULL, 'main', 'api', 0, 0, 1, 0, 4, 4, 1),
               (5, 1, x'00000000000000000000000000000005', 5, 5, NULL, 'branch', 'api', 0, 0, 1, 0, 5, 5, 0);
    INSERT INTO sessions (pk, tenant_pk, conversation_pk, id, kind, depth, parent_id, parent_relation, creator_kind,
        base_session_pk, base_seq, created_at, ended_at, end_reason)
        VALUES (2, 1, 2, 'branch', 'branch', 0, 'trip', 'branch', 'branch', 1, 2, 3, 3, 'compression'),
               (3, 1, 2, 'further', 'continuation', 1, 'branch', 'continuation', 'compression', 2, 2, 3, NULL, NULL),
               (4, 1, 4, 'gone', 'main', 0, NULL, NULL, 'api', NULL, NULL, 4, NULL, NULL),
               (5, 1, 5, 'orphan', 'branch', 0, 'gone', 'branch', 'branch', 4, 0, 5, NULL, NULL);
    INSERT INTO aliases (tenant_pk, namespace, alias, conversation_pk, session_pk)
        VALUES (1, 'session', 'branch', 2, 2), (1, 'session', 'further', 2, 3), (1, 'session', 'orphan', 5, 5),
               (1, 'session', 'conv_00000000000000000000000000000002', 2, NULL),
               (1, 'session', 'conv_00000000000000000000000000000005', 5, NULL);
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_earlier_releases_have_their_parents() {
    let database = written_by(5);
    Connection::open(database.path()).unwrap().execute_batch(&[CONVERSATION, BRANCHES].concat()).unwrap();
    let world = database.world().await;
    let row = world.row("trip").await.unwrap();
    assert_eq!((row.facts.head.kind, row.facts.origin_kind), (SessionKind::Main, SessionKind::Main));
    let children = ListFilter { parent: Alias::parse("trip").ok(), ..ListFilter::default() };
    let children = world.pages(&world.scope, children).await;
    assert_eq!(children.iter().map(|row| row.session.id.as_str()).collect::<Vec<_>>(), ["further"]);
    let (nodes, edges) = world.whole_graph(&world.scope, "further", 10).await;
    let ids: Vec<_> = nodes.iter().map(|node| node.row.session.id.as_str()).collect();
    assert_eq!(ids, ["trip", "branch", "further"]);
    let related: Vec<_> = edges.iter().map(|edge| (edge.from.as_str(), edge.relation, edge.has_node)).collect();
    assert_eq!(related, [("trip", ParentRelation::Branch, true), ("branch", ParentRelation::Continuation, true)]);
    let (nodes, edges) = world.whole_graph(&world.scope, "orphan", 10).await;
    assert_eq!((nodes.len(), edges[0].from.as_str(), edges[0].has_node), (1, "gone", false));
    let orphan = world.copy("orphan").await.1.sessions.remove(0).parent.unwrap();
    let gone = orphan.conversation_id.map(|id| id.to_string());
    assert_eq!(
        gone.as_deref(),
        Some("conv_00000000000000000000000000000004"),
        "the conversation of a deleted parent is known"
    );
    world.one.close().await;
    world.two.close().await;
    check_file(&database.path());
}
