Feature: Different services share a key
  The other service is like a Lambda function: it has no PostgreSQL, only the
  AWS SDK and the same table.

  Background:
    Given a payment event "order-1001" over 25 euros has not been processed

  Scenario: The other service skips an event that PostgreSQL has processed
    Given the event has been processed
    When the event is delivered to the other service until it is answered
    Then the other service gets the receipt, too
    And the customer is charged once

  Scenario: PostgreSQL skips an event that the other service has processed
    Given the other service has processed the event
    When the event is delivered
    Then the sender gets the other service's receipt
    And the customer is charged once
    And charging was tried 0 times

  Scenario: Both are asked at the same moment
    When the event is delivered to both at the same moment
    Then one of them charges the customer, and the other gets its receipt or comes back later
    And the customer is charged once

  Scenario: A payload that differs is refused by the other service as well
    Given the event has been processed
    When the event is delivered to the other service with 30 euros in it
    Then the other service is told "not the same event"
    And the customer is charged once

  Scenario: A service that died is replaced, and cannot come back
    Given the other service took on the event and died
    When the event is delivered until it is answered
    Then the sender gets the receipt
    And the customer is charged once
    When the other service comes back to life and says it is done
    Then it is told that it has lost the event
    And the customer is charged once
