Feature: An event has one handler at a time

  Background:
    Given a payment event "order-1001" over 25 euros has not been processed

  Scenario: An event is delivered while it is being handled
    Given the bank is slow
    And a handler is at work on the event
    When the event is delivered again
    Then the sender is told "come back later"
    When the bank answers
    Then the first sender gets the receipt
    And the customer is charged once

  Scenario: Two handlers at the same time
    When the event is delivered 2 times at the same time
    Then at least one sender gets the receipt, and any other is told "come back later"
    And the customer is charged once

  Scenario: A crowd of handlers at the same time
    When the event is delivered 10 times at the same time
    Then at least one sender gets the receipt, and any other is told "come back later"
    And the customer is charged once
    And charging was tried 1 time

  Scenario: The second click of a double click gets the first one's result
    Given the bank is slow
    And a handler is at work on the event
    When the event is delivered again by a sender who waits
    And the bank answers
    Then the sender gets the same receipt every time
    And the customer is charged once
    And charging was tried 1 time

  Scenario: The second click takes over when the first one fails
    Given the bank is slow
    And a handler is at work on the event
    When the event is delivered again by a sender who waits
    And the first handler is stopped
    And the bank answers
    Then the sender gets the receipt
    And the customer is charged once

  Scenario: A handler that takes longer than expected keeps the event
    Given the bank is slow
    And a handler that promised to be done within 1 second is at work on the event
    When the other service asks for the event until that second is long over
    Then the other service was told "come back later" each time
    When the bank answers
    Then the first sender gets the receipt
    And the customer is charged once
