//! The names of metrics in the documents, the dashboard and the alerts are those that the server has.

use std::collections::BTreeSet;

use herma_testkit::Reply;
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_KEY, TestGateway, chat, user};

const DOCUMENT: &str = include_str!("../../../../../docs/OPERATIONS.md");
const DASHBOARD: &str = include_str!("../../../../../ops/grafana/herma.json");
const ALERTS: &str = include_str!("../../../../../ops/prometheus/herma.rules.yaml");

/// All metrics of a server on which everything has happened that is counted, with their labels.
async fn all_metrics() -> (BTreeSet<String>, String) {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    let client = gateway.client().header(SESSION_KEY, "agent:main");
    client.post_json(CHAT, &chat(&[user("one")])).await.expect(200);
    gateway.upstream.push(Reply::status(500, "no"));
    client.post_json(CHAT, &chat(&[user("two")])).await.expect(502);
    client.post_json("/v1/embeddings", &json!({"model": "scripted", "input": "x"})).await;
    let text = gateway.client().get("/metrics").await.text();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = types.map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() });
    (names.collect(), text)
}

/// The words of a text that are names of metrics, without the parts of a histogram.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let whole = |word: &str| {
        let part = ["_bucket", "_sum", "_count"].into_iter().find_map(|part| word.strip_suffix(part));
        part.unwrap_or(word).to_owned()
    };
    words.filter(|word| word.starts_with("herma_")).map(whole).collect()
}

#[tokio::test]
async fn the_documented_metrics_are_those_that_the_server_has() {
    let (metrics, text) = all_metrics().await;
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `herma_")?.split_once("` | "));
    let rows: Vec<_> = rows.map(|(name, rest)| (format!("herma_{name}"), rest)).collect();
    let documented: BTreeSet<_> = rows.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(documented, metrics);
    for (name, rest) in rows {
        let labels: Vec<_> = rest.split(" | ").next().unwrap_or("").split('`').skip(1).step_by(2).collect();
        let sample = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{")));
        let sample = sample.filter(|sample| !sample.starts_with("le=")).unwrap_or("}");
        let shown = sample.split_once('}').map_or("", |(labels, _)| labels);
        let shown: Vec<_> = shown.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
        assert_eq!(labels, shown, "{name}");
    }
}

#[tokio::test]
async fn the_dashboard_and_the_alerts_ask_for_metrics_that_exist() {
    let (metrics, _) = all_metrics().await;
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries: Vec<_> = targets.map(|target| target["expr"].as_str().expect("a query")).collect();
    let asked = names_in(&queries.join("\n"));
    assert_eq!(asked.difference(&metrics).collect::<Vec<_>>(), Vec::<&String>::new());
    // A new metric wants a panel.
    assert_eq!(metrics.difference(&asked).collect::<Vec<_>>(), Vec::<&String>::new());
    let alerts = names_in(&ALERTS.lines().filter(|line| line.contains("expr:")).collect::<Vec<_>>().join("\n"));
    assert!(!alerts.is_empty() && alerts.is_subset(&metrics), "{alerts:?}");
}
