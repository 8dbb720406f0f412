//! The export itself: a collector that hangs, refuses or lies delays nothing, and what is lost is counted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Observed;
use super::collector::Manner;
use crate::support::{CHAT, chat, user};

/// More than a turn takes on a busy machine, and less than a request to the collector may take.
const SOON: Duration = Duration::from_secs(8);

async fn counted(observed: &Observed, name: &str) -> u64 {
    let metrics = observed.herma.client().get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    line.unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

#[tokio::test]
async fn a_collector_that_hangs_delays_neither_turns_nor_the_end() {
    for manner in [Manner::Hangs, Manner::NeverEnds] {
        let mut observed = Observed::start(&[("HERMA_TELEMETRY__METRICS_INTERVAL", "1s")]).await;
        observed.collector.answers_by(manner);
        observed.herma.client().post_json(CHAT, &chat(&[user("one")])).await.expect(200);
        observed.collector.until_requests(1).await;
        let began = Instant::now();
        observed.herma.client().post_json(CHAT, &chat(&[user("two")])).await.expect(200);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        let began = Instant::now();
        observed.stop().await;
        // The limit of the flush is two seconds.
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert!(observed.herma.stderr().contains("the last telemetry is lost"), "{}", observed.herma.stderr());
    }
}

#[tokio::test]
async fn a_collector_that_is_not_there_is_reported_once_and_delays_nothing() {
    let nowhere =
        [("HERMA_TELEMETRY__OTLP_ENDPOINT", "http://127.0.0.1:9"), ("HERMA_TELEMETRY__METRICS_INTERVAL", "1s")];
    let mut observed = Observed::start(&nowhere).await;
    observed.herma.client().post_json(CHAT, &chat(&[user("one")])).await.expect(200);
    observed.herma.until_stderr("metrics could not be sent").await;
    let began = Instant::now();
    observed.stop().await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let said = observed.herma.stderr();
    assert_eq!(said.matches("metrics could not be sent").count(), 1, "{said}");
    assert_eq!(said.matches("spans could not be sent").count(), 1, "{said}");
}

#[tokio::test]
async fn spans_that_the_collector_does_not_take_are_counted() {
    let settings = [("OTEL_METRICS_EXPORTER", "none")];
    for (manner, dropped, exported) in [(Manner::Refuses, 5, 0), (Manner::Rejects(2), 2, 3), (Manner::Takes, 0, 5)] {
        let observed = Observed::start(&settings).await;
        observed.collector.answers_by(manner);
        observed.herma.client().post_json(CHAT, &chat(&[user("one")])).await.expect(200);
        observed.collector.until_requests(1).await;
        let settled = async {
            loop {
                let counts = (
                    counted(&observed, "herma_spans_dropped_total").await,
                    counted(&observed, "herma_spans_exported_total").await,
                );
                if counts.0 + counts.1 > 0 {
                    return counts;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let counts = tokio::time::timeout(herma_testkit::PATIENCE, settled).await.expect("counts");
        assert_eq!(counts, (dropped, exported), "{manner:?}");
    }
}

#[tokio::test]
async fn a_full_queue_drops_spans_and_counts_them_while_the_collector_hangs() {
    let settings = [
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
        ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
        // Without a limit, so that the first batch is never given up.
        ("OTEL_BSP_EXPORT_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
    ];
    let mut observed = Observed::start(&settings).await;
    observed.collector.answers_by(Manner::Hangs);
    let say = async |text: &str| {
        observed.herma.client().post_json(CHAT, &chat(&[user(text)])).await.expect(200);
    };
    say("one").await;
    observed.collector.until_requests(1).await;
    for text in ["two", "three", "four"] {
        let began = Instant::now();
        say(text).await;
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
    // Each turn has five spans. Four of these twenty are on their way, and eight wait.
    let all_dropped = async {
        while counted(&observed, "herma_spans_dropped_total").await < 20 - 4 - 8 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(herma_testkit::PATIENCE, all_dropped).await.expect("dropped spans");
    assert_eq!(counted(&observed, "herma_spans_dropped_total").await, 8);
    assert_eq!(counted(&observed, "herma_spans_exported_total").await, 0);
    let began = Instant::now();
    observed.stop().await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_batch_that_takes_longer_than_it_may_is_given_up_and_counted() {
    for limit in ["OTEL_BSP_EXPORT_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"] {
        let settings = [("OTEL_METRICS_EXPORTER", "none"), ("OTEL_BSP_SCHEDULE_DELAY", "0"), (limit, "100")];
        let observed = Observed::start(&settings).await;
        observed.collector.answers_by(Manner::Hangs);
        observed.herma.client().post_json(CHAT, &chat(&[user("one")])).await.expect(200);
        observed.herma.until_stderr("spans could not be sent and are lost").await;
        assert!(counted(&observed, "herma_spans_dropped_total").await > 0, "{limit}");
    }
}

#[tokio::test]
async fn the_metrics_of_otlp_are_those_of_prometheus() {
    let mut observed = Observed::start(&[]).await;
    observed.herma.client().post_json(CHAT, &chat(&[user("one")])).await.expect(200);
    let text = observed.herma.client().get("/metrics").await.text();
    observed.stop().await;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let has_points = |name: &&str| text.lines().any(|line| line.starts_with(*name) && !line.starts_with('#'));
    let of_prometheus: BTreeSet<_> = types.filter(has_points).map(str::to_owned).collect();
    let received = observed.collector.received();
    let of_otlp: BTreeSet<_> = received.metrics.iter().map(|metric| metric.name.clone()).collect();
    assert_eq!(of_otlp, of_prometheus);
    assert!(of_otlp.contains("herma_turns") && of_otlp.contains("herma_turn_seconds"), "{of_otlp:?}");
}

#[tokio::test]
async fn headers_are_sent_and_never_shown() {
    let mut observed = Observed::start(&[("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-key=halibut%20key")]).await;
    observed.herma.client().post_json(CHAT, &chat(&[user("one")])).await.expect(200);
    observed.stop().await;
    let heads = observed.collector.received().heads;
    assert!(!heads.is_empty() && heads.iter().all(|head| head.contains("x-collector-key: halibut key")), "{heads:?}");
    assert!(heads.iter().all(|head| head.contains("content-type: application/x-protobuf")), "{heads:?}");
    assert!(!observed.herma.stderr().contains("halibut"), "{}", observed.herma.stderr());
}
