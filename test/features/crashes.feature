Feature: A crash neither loses a payment nor repeats it
  The server is killed in the middle, with everything that runs on it, and
  comes back by itself.

  Background:
    Given a payment event "order-1001" over 25 euros has not been processed

  Scenario: A crash between the work and its completion
    Given the server will be killed when the work is done and before that is said
    When the event is delivered
    Then the sender is told "no answer"
    When the server is back
    Then the customer is not charged
    When the event is delivered until it is answered
    Then the sender gets the receipt
    And the customer is charged once

  Scenario Outline: A crash <moment>
    Given the server will be killed <moment>
    When the event is delivered
    And the server is back
    And the event is delivered until it is answered
    Then the sender gets the receipt
    And the customer is charged once
    And the other service gets the receipt, too

    Examples:
      | moment                                           |
      | as it takes on the event                         |
      | when the work is done and before that is said    |
      | in the middle of the commit                      |
      | after the commit and before others know          |

  Scenario: A crash after the result does not change it
    Given the event has been processed
    And the server is killed
    When the server is back
    And the event is delivered until it is answered
    Then the sender gets the same receipt every time
    And the customer is charged once
