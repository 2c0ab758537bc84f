Feature: Work that two systems must agree on is done once
  A transaction manager has both of them prepare the work, and decides later.
  Until then nobody else may begin with it.

  Background:
    Given a payment event "order-1001" over 25 euros has not been processed
    And the event was processed and waits for the manager

  Scenario: Both agree
    When the event is delivered
    Then the sender is told "come back later"
    When the manager says yes
    And the event is delivered again
    Then the sender gets the receipt
    And the customer is charged once
    And the other service gets the receipt, too

  Scenario: The other system does not agree
    When the manager says no
    Then the customer is not charged
    When the event is delivered
    Then the sender gets the receipt
    And the customer is charged once

  Scenario: Another service has to wait, too
    When the event is delivered to the other service with 25 euros in it
    Then the other service is told "come back later"
    When the manager says yes
    Then the other service gets the receipt, too
    And the customer is charged once

  Scenario Outline: The server is killed before the manager <decides>
    Given the server is killed
    When the server is back
    Then the customer is not charged
    When the event is delivered
    Then the sender is told "come back later"
    When the manager <decides>
    And the event is delivered until it is answered
    Then the sender gets the receipt
    And the customer is charged once

    Examples:
      | decides  |
      | says yes |
      | says no  |
