-- The number of an event is the highest of its tenant's events plus one, so an event no longer writes the tenant's row.
-- `event_count` has the highest number of deleted events, so that none is given twice. `events_forgotten` stays for the
-- events that an earlier release has forgotten.
CREATE TRIGGER event_numbers_outlive_events AFTER DELETE ON events
WHEN OLD.number > coalesce((SELECT max(number) FROM events WHERE tenant_pk = OLD.tenant_pk), 0) BEGIN
    UPDATE tenants SET event_count = OLD.number WHERE pk = OLD.tenant_pk AND event_count < OLD.number;
END;
