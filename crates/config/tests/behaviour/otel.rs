//! The standard variables of OpenTelemetry.

use std::time::Duration;

use herma_config::{ExportLimits, ExportedSignal, Overrides, Secret, TelemetryConfig};

use crate::{load_env, load_with};

/// The settings with these variables. An error if there is a notice.
fn telemetry(variables: &[(&str, &str)]) -> Result<TelemetryConfig, String> {
    let loaded = load_env(variables)?;
    if loaded.notices.is_empty() { Ok(loaded.config.telemetry) } else { Err(loaded.notices.join("\n")) }
}

#[test]
fn they_set_what_herma_has_no_setting_for() {
    let telemetry = telemetry(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%3Db%20c, other=1"),
        ("OTEL_SERVICE_NAME", "gate"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=less,deployment.environment.name=test"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
    ])
    .unwrap();
    assert_eq!(telemetry.otlp_endpoint.as_ref().map(|url| url.as_str()), Some("http://collector:4318"));
    let headers: Vec<_> = telemetry.otlp_headers.iter().map(|(name, value)| (&**name, Secret::expose(value))).collect();
    assert_eq!(headers, [("api-key", "a=b c"), ("other", "1")]);
    assert_eq!(telemetry.service_name, "gate");
    assert_eq!(
        telemetry.resource.into_iter().collect::<Vec<_>>(),
        [("deployment.environment.name".into(), "test".into())]
    );
    assert_eq!((telemetry.sample_ratio, telemetry.sample_as_caller), (0.25, true));
    assert_eq!(telemetry.export, [ExportedSignal::Traces]);
    assert_eq!(telemetry.metrics_interval, Duration::from_secs(5));
}

#[test]
fn limits_of_the_export_are_those_of_the_standard() {
    let limits = |variables: &[(&str, &str)]| telemetry(variables).unwrap().limits;
    assert_eq!(limits(&[]), ExportLimits::default());
    let set = limits(&[
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_EXPORT_TIMEOUT", " 7000 "),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100"),
    ]);
    let wanted = ExportLimits {
        request_timeout: Some(Duration::from_millis(2500)),
        span_queue: 100,
        span_batch: 100,
        span_delay: Duration::ZERO,
        span_timeout: Some(Duration::from_secs(7)),
    };
    assert_eq!(set, wanted);
    let endless = limits(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_BSP_EXPORT_TIMEOUT", "0")]);
    assert_eq!((endless.request_timeout, endless.span_timeout), (None, None));
    let short_queue = limits(&[("OTEL_BSP_MAX_QUEUE_SIZE", "10")]);
    assert_eq!((short_queue.span_queue, short_queue.span_batch), (10, 10));
}

#[test]
fn a_limit_that_cannot_be_used_is_reported_with_what_it_must_be() {
    for (name, value, wanted) in [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "whole milliseconds, such as 10000; 0 is without a limit"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "-1", "whole milliseconds, such as 10000; 0 is without a limit"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1.5", "whole milliseconds, such as 5000"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "a number of spans, at least 1, such as 2048"),
        (
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
            "4096",
            "a number of spans from 1 to 2048, the size of the queue (OTEL_BSP_MAX_QUEUE_SIZE)",
        ),
    ] {
        let loaded = load_env(&[(name, value)]).unwrap();
        assert_eq!(loaded.notices, [format!("{name} is ignored: it must be {wanted}")]);
        assert_eq!(loaded.config.telemetry, TelemetryConfig::default(), "{name}");
    }
}

#[test]
fn every_sampler_of_the_standard_is_known() {
    for (sampler, ratio, by_caller) in [
        ("always_on", 1.0, false),
        ("always_off", 0.0, false),
        ("traceidratio", 0.5, false),
        ("parentbased_always_on", 1.0, true),
        ("parentbased_always_off", 0.0, true),
        ("parentbased_traceidratio", 0.5, true),
    ] {
        let telemetry = telemetry(&[("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", "0.5")]).unwrap();
        assert_eq!((telemetry.sample_ratio, telemetry.sample_as_caller), (ratio, by_caller), "{sampler}");
    }
}

#[test]
fn settings_of_herma_count_more() {
    let toml = "[telemetry]\notlp_endpoint = \"http://mine:1\"\nservice_name = \"mine\"\nsample_ratio = 0.5\n\
                export = [\"metrics\"]\notlp_headers = { key = \"mine\" }\nresource = { a = \"mine\" }\n";
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://theirs:1"),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_SERVICE_NAME", "theirs"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key=theirs"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=theirs"),
    ];
    let with = load_with(toml, &variables, Overrides::default()).unwrap().config.telemetry;
    assert_eq!(with, load_with(toml, &[], Overrides::default()).unwrap().config.telemetry);
}

#[test]
fn one_that_cannot_be_used_is_reported_and_ignored() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret-without-a-name"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=%zz"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1"),
        ("OTEL_SDK_DISABLED", "perhaps"),
    ] {
        let loaded = load_env(&[(name, value)]).unwrap();
        let [notice] = &loaded.notices[..] else { panic!("{name}: {:?}", loaded.notices) };
        assert!(notice.starts_with(&format!("{name} is ignored")) && !notice.contains("secret"), "{notice}");
        assert_eq!(loaded.config.telemetry, TelemetryConfig::default(), "{name}");
    }
    let bad_ratio = load_env(&[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")]).unwrap();
    assert_eq!((bad_ratio.notices.len(), bad_ratio.config.telemetry), (1, TelemetryConfig::default()));
}

#[test]
fn a_disabled_sdk_sends_nothing() {
    let telemetry = telemetry(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"), ("OTEL_SDK_DISABLED", "TRUE")]).unwrap();
    assert_eq!(telemetry.otlp_endpoint, None);
}
