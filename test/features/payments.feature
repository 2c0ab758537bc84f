Feature: A payment event charges the customer once
  Payment events are delivered at least once: some come twice. The customer
  must not notice.

  Background:
    Given a payment event "order-1001" over 25 euros has not been processed

  Scenario: A new event is processed
    When the event is delivered
    Then the sender gets the receipt
    And the customer is charged once

  Scenario: A completed event is skipped, and its result returned
    Given the event has been processed
    When the event is delivered again
    Then the sender gets the same receipt every time
    And the customer is charged once
    And charging was tried 1 time

  Scenario: A failed event is retried
    Given the card is declined
    When the event is delivered
    Then the sender is told "card declined"
    And the customer is not charged
    When the card works again
    And the event is delivered again
    Then the sender gets the receipt
    And the customer is charged once

  Scenario: A duplicate with another payload is refused
    Given the event has been processed
    When the event is delivered with 30 euros in it
    Then the sender is told "not the same event"
    And the customer is charged once

  Scenario: Another event is another payment
    Given the event has been processed
    And a payment event "order-1002" over 25 euros has not been processed
    When the event is delivered
    Then the sender gets the receipt
    And the customer is charged once
