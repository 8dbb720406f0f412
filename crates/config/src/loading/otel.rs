//! The standard variables of OpenTelemetry. They count where Herma's own settings say nothing.
//!
//! A value that cannot be used is reported and ignored, as the standard wants it.

use std::time::Duration;

use super::environment::Environment;
use crate::reading::given::GivenValue;
use crate::reading::setting::Setting;
use crate::sections::telemetry::{ExportedSignal, TelemetryConfig};
use crate::values::http_url::HttpUrl;
use crate::values::secret::Secret;

/// What a timeout must be.
const TIMEOUT: &str = "whole milliseconds, such as 10000; 0 is without a limit";

/// Applies the variables to settings that were not given. `set` has the keys that were. Returns notices.
pub(super) fn apply(environment: &Environment, telemetry: &mut TelemetryConfig, set: &[String]) -> Vec<String> {
    let is_free = |key: &str| !set.iter().any(|given| given.strip_prefix("telemetry.") == Some(key));
    let is_free_table = |key: &str| {
        let prefix = format!("telemetry.{key}.");
        !set.iter().any(|given| given.starts_with(&prefix))
    };
    let mut notices = Vec::new();
    let mut read = |name: &'static str, allowed: &str, apply: &mut dyn FnMut(&str) -> Option<()>| {
        if let Some(text) = environment.get(name)
            && apply(text.trim()).is_none()
        {
            notices.push(format!("{name} is ignored: it must be {allowed}"));
        }
    };
    if is_free("otlp_endpoint") {
        read("OTEL_EXPORTER_OTLP_ENDPOINT", HttpUrl::ALLOWED, &mut |text| {
            telemetry.otlp_endpoint = Some(HttpUrl::parse(text)?.trimmed());
            Some(())
        });
        read("OTEL_SDK_DISABLED", "true or false", &mut |text| {
            if boolean(text)? {
                telemetry.otlp_endpoint = None;
            }
            Some(())
        });
    }
    read("OTEL_EXPORTER_OTLP_PROTOCOL", "\"http/protobuf\", the only one that Herma speaks", &mut |text| {
        (text == "http/protobuf").then_some(())
    });
    if is_free_table("otlp_headers") {
        read("OTEL_EXPORTER_OTLP_HEADERS", "a list such as \"name=value,other=value\"", &mut |text| {
            for (name, value) in pairs(text)? {
                let value = Secret::read(&GivenValue::Text(value)).ok()?;
                telemetry.otlp_headers.insert(name.to_ascii_lowercase(), value);
            }
            Some(())
        });
    }
    if is_free_table("resource") {
        read("OTEL_RESOURCE_ATTRIBUTES", "a list such as \"name=value,other=value\"", &mut |text| {
            telemetry.resource.extend(pairs(text)?);
            Some(())
        });
    }
    if is_free("service_name") {
        // The attribute counts less than the variable.
        if let Some(name) = telemetry.resource.remove("service.name") {
            telemetry.service_name = name;
        }
        read("OTEL_SERVICE_NAME", "a name", &mut |text| {
            text.clone_into(&mut telemetry.service_name);
            Some(())
        });
    }
    if is_free("export") {
        for (name, signal) in
            [("OTEL_TRACES_EXPORTER", ExportedSignal::Traces), ("OTEL_METRICS_EXPORTER", ExportedSignal::Metrics)]
        {
            read(name, "\"otlp\" or \"none\"", &mut |text| match text {
                "otlp" => Some(()),
                "none" => {
                    telemetry.export.retain(|exported| *exported != signal);
                    Some(())
                }
                _ => None,
            });
        }
    }
    if is_free("metrics_interval") {
        read("OTEL_METRIC_EXPORT_INTERVAL", "milliseconds, at least 1000", &mut |text| {
            let milliseconds = text.parse().ok().filter(|milliseconds| *milliseconds >= 1000)?;
            telemetry.metrics_interval = Duration::from_millis(milliseconds);
            Some(())
        });
    }
    if is_free("sample_ratio") && is_free("sample_as_caller") {
        let ratio = environment.get("OTEL_TRACES_SAMPLER_ARG").map_or(Some(1.0), |text| text.trim().parse().ok());
        let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
        read(
            "OTEL_TRACES_SAMPLER",
            "a sampler of the standard, with its ratio in OTEL_TRACES_SAMPLER_ARG",
            &mut |text| {
                let (by_caller, name) = match text.strip_prefix("parentbased_") {
                    Some(name) => (true, name),
                    None => (false, text),
                };
                telemetry.sample_ratio = match name {
                    "always_on" => 1.0,
                    "always_off" => 0.0,
                    "traceidratio" => ratio?,
                    _ => return None,
                };
                telemetry.sample_as_caller = by_caller;
                Some(())
            },
        );
    }
    let limits = &mut telemetry.limits;
    read("OTEL_EXPORTER_OTLP_TIMEOUT", TIMEOUT, &mut |text| {
        limits.request_timeout = timeout(text)?;
        Some(())
    });
    read("OTEL_BSP_EXPORT_TIMEOUT", TIMEOUT, &mut |text| {
        limits.span_timeout = timeout(text)?;
        Some(())
    });
    read("OTEL_BSP_SCHEDULE_DELAY", "whole milliseconds, such as 5000", &mut |text| {
        limits.span_delay = milliseconds(text)?;
        Some(())
    });
    read("OTEL_BSP_MAX_QUEUE_SIZE", "a number of spans, at least 1, such as 2048", &mut |text| {
        limits.span_queue = spans(text)?;
        Some(())
    });
    limits.span_batch = limits.span_batch.min(limits.span_queue);
    let most = limits.span_queue;
    let allowed = format!("a number of spans from 1 to {most}, the size of the queue (OTEL_BSP_MAX_QUEUE_SIZE)");
    read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", &allowed, &mut |text| {
        limits.span_batch = spans(text).filter(|batch| *batch <= most)?;
        Some(())
    });
    notices
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.parse::<u32>().ok().map(|milliseconds| Duration::from_millis(milliseconds.into()))
}

/// A time limit. `Some(None)` if there is none: the standard writes that as zero.
fn timeout(text: &str) -> Option<Option<Duration>> {
    milliseconds(text).map(|limit| Some(limit).filter(|limit| !limit.is_zero()))
}

fn spans(text: &str) -> Option<usize> {
    text.parse::<u32>().ok().and_then(|spans| usize::try_from(spans).ok()).filter(|spans| *spans > 0)
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Reads `name=value,other=value`. Values are percent-encoded.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then_some(())?;
        Some((name.to_owned(), decoded(value.trim())?))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

/// Decodes `%20` and the like.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |digit: Option<u8>| char::from(digit?).to_digit(16);
            let value = digit(rest.next())? * 16 + digit(rest.next())?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}
