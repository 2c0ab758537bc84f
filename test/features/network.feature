Feature: Requests that are lost, delayed or repeated do no harm

  Background:
    Given a payment event "order-1001" over 25 euros has not been processed

  Scenario: A duplicate is held up and arrives after the result
    Given the event is delivered, but the request for it is held up on the way
    And the other service has processed the event
    When the request arrives
    Then the sender gets the other service's receipt
    And the customer is charged once

  Scenario: A request arrives after its sender gave up
    Given the event is delivered, but the request for it is held up on the way
    And its sender gives up
    And the event is delivered until it is answered
    When the request arrives
    And the event is delivered again
    Then the sender gets the receipt
    And the customer is charged once
    And the other service gets the receipt, too

  Scenario Outline: The answer to <request> is lost
    Given the answer to <request> will be lost
    When the event is delivered
    Then the sender gets the receipt
    And the customer is charged once
    And the other service gets the receipt, too

    Examples:
      | request                      |
      | the request for the event    |
      | the announcement of a commit |
      | the word that it is done     |

  Scenario: Every request arrives twice
    Given every request will arrive twice
    When the event is delivered
    Then the sender gets the receipt
    And the customer is charged once
    And the other service gets the receipt, too
