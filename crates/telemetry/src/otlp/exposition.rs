//! Reads Herma's metrics from the text that Prometheus gets. So there is one definition of every metric.
//!
//! The text comes from this process. A line that cannot be read is skipped.

use std::collections::BTreeMap;

/// What kind of numbers a metric has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric with its points.
#[derive(Debug, PartialEq)]
pub(super) struct Metric<'a> {
    pub(super) name: &'a str,
    pub(super) help: &'a str,
    pub(super) kind: MetricKind,
    pub(super) points: Vec<Point>,
}

pub(super) type Labels = Vec<(String, String)>;

/// One point of a metric.
#[derive(Debug, PartialEq)]
pub(super) struct Point {
    pub(super) labels: Labels,
    pub(super) value: PointValue,
}

#[derive(Debug, PartialEq)]
pub(super) enum PointValue {
    Number(f64),
    /// Buckets are upper bounds with the count of all values up to them. The last bound is infinite.
    Histogram {
        sum: f64,
        count: u64,
        buckets: Vec<(f64, u64)>,
    },
}

/// Reads all metrics.
pub(super) fn read(text: &str) -> Vec<Metric<'_>> {
    let mut metrics: Vec<Metric<'_>> = Vec::new();
    let mut help: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, about)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help.insert(name, about);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let kind = match kind {
                "counter" => MetricKind::Counter,
                "gauge" => MetricKind::Gauge,
                "histogram" => MetricKind::Histogram,
                _ => continue,
            };
            let help = help.get(name).copied().unwrap_or_default();
            metrics.push(Metric { name, help, kind, points: Vec::new() });
        } else if let (Some(metric), Some(sample)) = (metrics.last_mut(), sample(line)) {
            metric.add(sample);
        }
    }
    metrics
}

struct Sample<'a> {
    name: &'a str,
    labels: Labels,
    value: f64,
}

impl Metric<'_> {
    fn add(&mut self, Sample { name, mut labels, value }: Sample<'_>) {
        let Some(part) = name.strip_prefix(self.name) else { return };
        match (self.kind, part) {
            (MetricKind::Counter, "_total") | (MetricKind::Gauge, "") => {
                self.points.push(Point { labels, value: PointValue::Number(value) });
            }
            (MetricKind::Histogram, part) => {
                let le = labels.iter().position(|(name, _)| name == "le");
                let bound = le.map_or(f64::INFINITY, |at| labels.remove(at).1.parse().unwrap_or(f64::INFINITY));
                let PointValue::Histogram { sum, count, buckets } = self.histogram(labels) else { return };
                match part {
                    "_sum" => *sum = value,
                    "_count" => *count = value as u64,
                    "_bucket" => buckets.push((bound, value as u64)),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The histogram with these labels.
    fn histogram(&mut self, labels: Labels) -> &mut PointValue {
        let at = self.points.iter().position(|point| point.labels == labels).unwrap_or_else(|| {
            let value = PointValue::Histogram { sum: 0.0, count: 0, buckets: Vec::new() };
            self.points.push(Point { labels, value });
            self.points.len() - 1
        });
        &mut self.points[at].value
    }
}

/// Reads `name{label="value"} 1.5`.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after;
        }
        rest = &rest[1..];
    }
    let value = rest.trim().split(' ').next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// Reads up to the closing quote. Returns the text and what follows the quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP herma_turns Turns, by outcome.
# TYPE herma_turns counter
herma_turns_total{outcome="completed"} 3
herma_turns_total{outcome="a \"b\" \\ c",other="x"} 1
# HELP herma_live_turns Turns that run.
# TYPE herma_live_turns gauge
herma_live_turns 2
# HELP herma_turn_seconds Time.
# TYPE herma_turn_seconds histogram
herma_turn_seconds_sum 1.5
herma_turn_seconds_count 3
herma_turn_seconds_bucket{le="0.5"} 2
herma_turn_seconds_bucket{le="+Inf"} 3
nonsense
# TYPE herma_odd info
# EOF
"#;

    #[test]
    fn every_kind_of_metric_is_read() {
        let metrics = read(TEXT);
        let names: Vec<_> = metrics.iter().map(|metric| (metric.name, metric.kind, metric.points.len())).collect();
        let expected = [
            ("herma_turns", MetricKind::Counter, 2),
            ("herma_live_turns", MetricKind::Gauge, 1),
            ("herma_turn_seconds", MetricKind::Histogram, 1),
        ];
        assert_eq!(names, expected);
        assert_eq!(metrics[0].help, "Turns, by outcome.");
        assert_eq!(metrics[0].points[1].labels[0].1, "a \"b\" \\ c");
        let buckets = vec![(0.5, 2), (f64::INFINITY, 3)];
        assert_eq!(metrics[2].points[0].value, PointValue::Histogram { sum: 1.5, count: 3, buckets });
    }
}
