Feature: A poison message is parked until an operator redrives it

  Background:
    Given a payment event "order-1001" over 25 euros has not been processed
    And the card is declined

  Scenario: A message that fails three times is parked
    When the event is delivered 3 times, one after the other
    Then the sender is told "card declined" each time
    When the event is delivered again
    Then the sender is told "parked"
    And charging was tried 3 times
    And the operator sees "the card is declined"

  Scenario: A parked message stays parked, whatever has become of the cause
    Given the event is parked
    When the card works again
    And the event is delivered again
    Then the sender is told "parked"
    And the customer is not charged

  Scenario: A parked message is redriven
    Given the event is parked
    When the card works again
    And the operator redrives the event
    And the event is delivered again
    Then the sender gets the receipt
    And the customer is charged once
