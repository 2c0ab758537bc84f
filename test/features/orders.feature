Feature: An order number is used once, whichever service takes the order
  The web shop and the partner portal have databases of their own.

  Scenario: The same order number from two services
    Given the web shop has taken order "4711"
    When the partner portal takes order "4711"
    Then the partner portal is told "the number is taken"
    And order "4711" is there once

  Scenario: The same order number twice from one service
    Given the web shop has taken order "4711"
    When the web shop takes order "4711"
    Then the web shop is told "the number is taken"
    And order "4711" is there once

  Scenario: Two services at the same time
    When the web shop and the partner portal take order "4711" at the same time
    Then one of them has it, and the other is told "the number is taken"
    And order "4711" is there once

  Scenario: An order that came to nothing leaves its number to others
    Given the web shop took order "4711" and changed its mind
    When the partner portal takes order "4711"
    Then the partner portal has order "4711"
    And order "4711" is there once

  Scenario: Other numbers are other orders
    Given the web shop has taken order "4711"
    When the partner portal takes order "4712"
    Then the partner portal has order "4712"
