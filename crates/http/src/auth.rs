//! Authentication.

use std::net::IpAddr;

use axum::extract::Request;
use herma_model::Principal;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, StatusCode};

use crate::app::{Authentication, Shared};
use crate::error::ApiError;
use crate::failed_logins::ClientAddress;
use crate::headers;

const NO_KEY: &str = "the request has no key";
const BAD_KEY: &str = "the key is not known, has expired, or was revoked";

/// Authenticates a request and adds its principal to the extensions. The refusal of a wrong key waits, longer with each
/// one from the same address.
pub(crate) async fn require(app: &Shared, request: &mut Request) -> Result<(), ApiError> {
    let principal = match admit(app, request.headers()).await {
        Ok(principal) => principal,
        Err(refusal) => {
            // A request without a key guesses nothing.
            if refusal.status() == StatusCode::UNAUTHORIZED
                && given_key(request.headers()).is_some()
                && let Some(ClientAddress(address)) = request.extensions().get()
            {
                app.failed_logins.slow_down(*address).await?;
            }
            return Err(refusal);
        }
    };
    if principal.limits.read_only && !only_reads(request) {
        return Err(ApiError::read_only_key());
    }
    request.extensions_mut().insert(principal);
    Ok(())
}

/// The principal of a request that counts for the rate of its key.
pub(crate) async fn admit(app: &Shared, headers: &HeaderMap) -> Result<Principal, ApiError> {
    let principal = principal(app, headers).await?;
    if let Authentication::Keys(access) = &app.settings.authentication {
        access.count_request(&principal)?;
    }
    Ok(principal)
}

/// Whether a request changes nothing and asks no model. A `GET` of `/v1/responses` opens a WebSocket for turns.
fn only_reads(request: &Request) -> bool {
    match request.uri().path() {
        "/v1/responses/input_tokens" => true,
        "/v1/responses" => false,
        _ => request.method().is_safe(),
    }
}

/// The principal of a request, by its headers and the keys that are valid now.
pub(crate) async fn principal(app: &Shared, headers: &HeaderMap) -> Result<Principal, ApiError> {
    match &app.settings.authentication {
        Authentication::Keys(access) => {
            let secret = given_key(headers).ok_or_else(|| refused(NO_KEY))?;
            access.principal(secret).await?.ok_or_else(|| refused(BAD_KEY))
        }
        Authentication::None(principal) => {
            if !is_own_name(headers) {
                return Err(ApiError::host_not_allowed());
            }
            if let Some(name) = headers::names_a_session(headers) {
                return Err(ApiError::headers_need_auth(name));
            }
            Ok(principal.clone())
        }
    }
}

/// Refuses a request. The operator gets a warning that does not contain the key.
fn refused(why: &'static str) -> ApiError {
    tracing::warn!(why, "an API key was refused");
    ApiError::unauthorized()
}

/// Whether the `Host` header names this machine. This stops DNS rebinding: a page of another site whose domain was
/// pointed at this machine sends its own domain.
fn is_own_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|value| value.to_str().ok()) else { return true };
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    name.eq_ignore_ascii_case("localhost")
        || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The key that a request brings, valid or not.
fn given_key(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim()).filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for (host, own) in [
            ("localhost:8642", true),
            ("127.0.0.1", true),
            ("127.0.0.1:1", true),
            ("[::1]:8642", true),
            ("[::1]", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example:80", false),
            ("192.168.0.1", false),
        ] {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            assert_eq!(is_own_name(&headers), own, "{host}");
        }
    }
}
