//! Metrics as OTLP's `ExportMetricsServiceRequest`.
//!
//! A name is that of Prometheus without `_total`, which collectors add again.

use super::exposition::{self, Metric, MetricKind, Point, PointValue};
use super::protobuf::Writer;
use super::{Resource, attribute, request};

/// Counts go on from the start of the process.
const CUMULATIVE: i64 = 2;

/// Writes the metrics of a text for Prometheus. Times are nanoseconds since 1970: when counting began, and now.
pub(crate) fn metrics_request(resource: &Resource, text: &str, began: u64, now: u64) -> Vec<u8> {
    request(resource, |scope| {
        for metric in exposition::read(text).iter().filter(|metric| !metric.points.is_empty()) {
            scope.message(2, |message| write(message, metric, began, now));
        }
    })
}

fn write(message: &mut Writer, metric: &Metric<'_>, began: u64, now: u64) {
    message.text(1, metric.name);
    message.text(2, metric.help);
    if metric.name.ends_with("_seconds") {
        message.text(3, "s");
    }
    let point = |field: u32, list: &mut Writer, point: &Point| {
        list.message(field, |written| write_point(written, point, began, now));
    };
    match metric.kind {
        MetricKind::Gauge => message.message(5, |gauge| metric.points.iter().for_each(|one| point(1, gauge, one))),
        MetricKind::Counter => message.message(7, |sum| {
            metric.points.iter().for_each(|one| point(1, sum, one));
            sum.number(2, CUMULATIVE);
            sum.flag(3, true);
        }),
        MetricKind::Histogram => message.message(9, |histogram| {
            metric.points.iter().for_each(|one| point(1, histogram, one));
            histogram.number(2, CUMULATIVE);
        }),
    }
}

fn write_point(message: &mut Writer, point: &Point, began: u64, now: u64) {
    message.fixed64(2, began);
    message.fixed64(3, now);
    let labels = match &point.value {
        PointValue::Number(number) => {
            message.double(4, *number);
            7
        }
        PointValue::Histogram { sum, count, buckets } => {
            message.fixed64(4, *count);
            message.double(5, *sum);
            // Prometheus counts all values up to a bound, OTLP those between two bounds.
            let below = std::iter::once(0).chain(buckets.iter().map(|(_, upto)| *upto));
            message.packed64(6, buckets.iter().zip(below).map(|((_, upto), below)| upto.saturating_sub(below)));
            let bounds = buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
            message.packed64(7, bounds.map(f64::to_bits));
            9
        }
    };
    for (name, value) in &point.labels {
        attribute(message, labels, name, |any| any.text(1, value));
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
    use prost::Message;

    use super::*;

    const TEXT: &str = "# HELP herma_turns Turns.\n# TYPE herma_turns counter\n\
        herma_turns_total{outcome=\"completed\"} 3\n\
        # HELP herma_live Live.\n# TYPE herma_live gauge\nherma_live 2\n\
        # HELP herma_turn_seconds Time.\n# TYPE herma_turn_seconds histogram\n\
        herma_turn_seconds_sum 1.5\nherma_turn_seconds_count 6\nherma_turn_seconds_bucket{le=\"0.5\"} 2\n\
        herma_turn_seconds_bucket{le=\"1.0\"} 5\nherma_turn_seconds_bucket{le=\"+Inf\"} 6\n";

    #[test]
    fn metrics_of_prometheus_are_read_as_those_of_otlp() {
        let bytes = metrics_request(&[], TEXT, 10, 20);
        let read = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
        let [turns, live, seconds] = &read.resource_metrics[0].scope_metrics[0].metrics[..] else { panic!("{read:?}") };
        let Some(metric::Data::Sum(sum)) = &turns.data else { panic!("{turns:?}") };
        assert_eq!((turns.name.as_str(), sum.is_monotonic, sum.aggregation_temporality), ("herma_turns", true, 2));
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (10, 20));
        assert_eq!(point.value, Some(number_data_point::Value::AsDouble(3.0)));
        assert_eq!(point.attributes[0].key, "outcome");
        assert!(matches!(&live.data, Some(metric::Data::Gauge(gauge)) if gauge.data_points.len() == 1), "{live:?}");
        let Some(metric::Data::Histogram(histogram)) = &seconds.data else { panic!("{seconds:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, seconds.unit.as_str()), (6, Some(1.5), "s"));
        assert_eq!((&point.bucket_counts[..], &point.explicit_bounds[..]), (&[2, 3, 1][..], &[0.5, 1.0][..]));
    }
}
